"""The command line: train a translator, translate lines with it, evaluate it."""

import argparse
import io
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch

from ..config import TrainingConfig, TransformerConfig, check_positive, config_from_dict
from ..data.batches import in_background, token_batches
from ..data.corpora import CORPORA, load_pairs
from ..data.tokenizers import train_tokenizer
from ..decoding import MAX_SOURCE_TOKENS, Alpha, check_alpha
from ..evaluation import perplexity
from ..training import adam, passes, train
from ..transformer import Transformer, count_parameters
from .checkpoints import RunCheckpoints, write_file
from .distributed import agreed, in_turn, leave, meet, processes
from .translator import (
    SCHEDULE,
    Translator,
    Weights,
    pretrained_names,
    progress_bar,
    read_json,
    run_checkpoints,
)

# What a run is about, unless the command line says otherwise. The tokenizer follows from the corpus.
RUN = {"data": "number_words", "source": "de", "target": "en", "tokenizer": None, "vocabulary_size": 8000}
FIXED_BY_TOKENIZER = {"vocabulary_size", "source_vocabulary_size", "pad_id", "bos_id", "eos_id"}


def new_translator(settings: dict[str, Any], pairs: list[tuple[str, str]]) -> Translator:
    """An untrained translator with tokenizers made from the training pairs."""
    run, model = settings["run"], settings["model"]
    if fixed := FIXED_BY_TOKENIZER & model.keys():
        raise ValueError(f"{', '.join(sorted(fixed))}: fixed by the tokenizer; see --vocabulary-size")
    sides = [[side for side, _ in pairs], [side for _, side in pairs]]
    sizes: dict[str, int] = {}
    if run["tokenizer"] == "spacy":  # words of two languages: two vocabularies
        languages = (run["source"], run["target"])
        tokenizers = [train_tokenizer("spacy", texts, code, 0) for texts, code in zip(sides, languages, strict=True)]
        sizes["source_vocabulary_size"] = len(tokenizers[0])
    else:
        tokenizers = [train_tokenizer(run["tokenizer"], sides[0] + sides[1], None, run["vocabulary_size"])] * 2
    config = config_from_dict(TransformerConfig, sizes | {"vocabulary_size": len(tokenizers[1])} | model)
    return Translator(Transformer(config), tokenizers[0], tokenizers[1], run["source"], run["target"])


class Run(NamedTuple):
    """What a training run works with."""

    translator: Translator
    optimizer: torch.optim.Optimizer
    checkpoints: RunCheckpoints
    steps_done: int
    train_ids: list[tuple[list[int], list[int]]]
    val_ids: list[tuple[list[int], list[int]]]


def run_train(args: argparse.Namespace) -> None:
    """Train on a corpus and write the translator, its checkpoints and its metrics into a folder.

    Under torchrun every process trains; the first alone writes, validates and decides when to stop.
    """
    args.device = meet(args.device)
    folder, first = args.translator, processes().rank == 0
    resume = args.resume or (_restarted() and bool(run_checkpoints(folder).paths()))
    settings = _training_settings(args, resume)
    schedule, config = settings["schedule"], config_from_dict(TrainingConfig, settings["training"])
    patience = schedule["patience"] or math.inf
    run = _prepare(args, settings, config, resume)
    model, saved = run.translator.model, run.steps_done
    stop_at = time.monotonic() + args.minutes * 60 if args.minutes is not None else math.inf
    try:
        with Metrics(folder if first else None, run.steps_done) as metrics:
            batches = in_background(passes(run.train_ids, config))
            records = train(model, run.optimizer, batches, config, run.steps_done)
            # A run may have been killed after it stopped early: then there is nothing left to do.
            records = records if agreed(metrics.since_best < patience, args.device) else ()
            for record in (bar := progress_bar(records, config.num_steps, "training", run.steps_done, first)):
                last = record.step_num == config.num_steps or time.monotonic() > stop_at
                line: dict[str, Any] = asdict(record)
                validated = first and (last or record.step_num % schedule["validate_every"] == 0)
                if validated:
                    line["val_perplexity"] = perplexity(model, token_batches(run.val_ids, config.batch_tokens))
                metrics.write(line)  # before the checkpoint, whose steps are then all on record
                if validated:
                    run.checkpoints.save(model, run.optimizer, record.step_num, line["val_perplexity"])
                    saved = record.step_num
                bar.set_postfix(metrics.shown(record.tokens_per_second), refresh=False)
                if agreed(last or metrics.since_best >= patience, args.device):
                    break
            bar.close()
            if metrics.since_best >= patience:
                best = f"since the best, {min(metrics.perplexities):.4f}"
                print(f"stopped early: {metrics.since_best} validations {best}", file=sys.stderr)
    except KeyboardInterrupt:
        where = f"at the checkpoint of step {saved}; --resume goes on" if saved else "before the first checkpoint"
        raise KeyboardInterrupt(where) from None


def _prepare(args: argparse.Namespace, settings: dict[str, Any], config: TrainingConfig, resume: bool) -> Run:
    """Read the corpus, make the translator or load it, and write what does not change while it trains."""
    folder, run, rank = args.translator, settings["run"], processes().rank
    pairs, held_out = (load_pairs(run["data"], split, run["source"], run["target"]) for split in ("train", "val"))
    torch.manual_seed(config.seed)
    translator = Translator.untrained(folder, args.device) if resume else new_translator(settings, pairs)
    model = translator.model.to(args.device)
    optimizer = adam(model, config)
    checkpoints = run_checkpoints(folder, settings["schedule"])
    with in_turn():  # the first process tidies up before the others read
        steps_done = _resume(checkpoints, model, optimizer) if resume else 0
    if steps_done > config.num_steps:
        raise ValueError(f"num_steps = {config.num_steps}, but {folder} has {steps_done} behind it; give a larger one")
    train_ids, val_ids = translator.encode(pairs), translator.encode(held_out)
    if rank > 0:  # dropout of its own; the weights are the same in every process
        torch.manual_seed(config.seed + 1_000_003 * (steps_done + 1) + rank)
    else:
        if not resume:
            translator.save(folder)
            checkpoints.clean()
        write_file(folder / "training.json", json.dumps(settings))
        size = f"{len(pairs)} pairs, {count_parameters(model)} parameters"
        print(f"{size}, {args.device}, {steps_done} steps done", file=sys.stderr)
    return Run(translator, optimizer, checkpoints, steps_done, train_ids, val_ids)


def _restarted() -> bool:
    """Whether torchrun started this process again, with the same command line, after one of its processes died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def _resume(checkpoints: RunCheckpoints, model: Transformer, optimizer: torch.optim.Optimizer) -> int:
    """Load the newest intact checkpoint and put those aside that are newer and damaged; returns its step."""
    if processes().rank > 0:
        return checkpoints.load_latest(model, optimizer).step_num
    checkpoints.clean()
    loaded = checkpoints.load_latest(model, optimizer)
    for reason in loaded.skipped.values():
        print(f"skipped and renamed to *.damaged: {reason}", file=sys.stderr)
    checkpoints.set_aside(loaded.skipped)
    print(f"resumed from {loaded.path}", file=sys.stderr)
    return loaded.step_num


def _training_settings(args: argparse.Namespace, resume: bool) -> dict[str, dict[str, Any]]:
    """What the run is about, its model, training and schedule: from the command line, or from the resumed run."""
    given = {
        "run": {name: getattr(args, name) for name in RUN if getattr(args, name) is not None},
        "model": _assignments(args.model),
        "training": _assignments(args.training),
        "schedule": {name: getattr(args, name) for name in SCHEDULE if getattr(args, name) is not None},
    }
    check_positive(**given["schedule"])
    if resume:
        if not run_checkpoints(args.translator).paths():
            raise ValueError(f"{args.translator} has no checkpoint to go on from; leave --resume out to start")
        path = args.translator / "training.json"
        settings = {"schedule": SCHEDULE} | read_json(path)
        if missing := given.keys() - settings.keys():
            raise ValueError(f"{path} is altered: it lacks {', '.join(sorted(missing))}")
        changed = [
            f"{key} = {value!r} (was {settings[part].get(key)!r})"
            for part, values in given.items()
            for key, value in values.items()
            if part != "schedule" and key != "num_steps" and settings[part].get(key) != value
        ]
        if changed:
            raise ValueError(f"{', '.join(changed)}: a resumed run keeps its settings; only num_steps may change")
    elif run_checkpoints(args.translator).paths():
        raise ValueError(f"{args.translator} holds a trained translator; add --resume to go on, or name another folder")
    else:
        training = {"num_steps": 2000, "batch_tokens": 4000}
        settings = {"run": RUN, "model": {}, "training": training, "schedule": SCHEDULE}
    settings = {part: settings[part] | given[part] for part in given}
    run = settings["run"]
    run["tokenizer"] = run["tokenizer"] or ("space" if run["data"] == "number_words" else "bpe")
    check_positive(vocabulary_size=run["vocabulary_size"])
    return settings


class Metrics:
    """The records of a run: a JSON line for each step in metrics.jsonl.

    What stands in the file past steps_done is cut off: the checkpoint that the run goes on from does not know it.
    Without a folder nothing is written.
    """

    def __init__(self, folder: Path | None, steps_done: int = 0):
        self.perplexities: list[float] = []  # of every validation
        self.last: dict[str, Any] = {}
        self.file = None
        if folder is None:
            return
        path = folder / "metrics.jsonl"
        self.file = path.open("ab")
        kept = 0
        for line in path.read_bytes().splitlines(keepends=True):
            record = _record(line)
            if record is None or record["step_num"] > steps_done:
                break
            self._remember(record)
            kept += len(line)
        self.file.truncate(kept)  # in place: a kill here leaves the file as it was, or cut

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()

    def write(self, record: dict[str, Any]) -> None:
        """Add the record of a step; JSON has no infinity and no NaN, so they become null."""
        self._remember(record)
        if self.file is None:
            return
        line = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
        try:
            self.file.write(json.dumps(line).encode() + b"\n")
            self.file.flush()
            if "val_perplexity" in record:
                os.fsync(self.file.fileno())
        except OSError as error:
            raise OSError(f"{self.file.name}: {error}; make room and go on with --resume") from error

    @property
    def since_best(self) -> int:
        """How many validations have passed since the best one."""
        if not self.perplexities:
            return 0
        return len(self.perplexities) - 1 - self.perplexities.index(min(self.perplexities))

    def shown(self, tokens_per_second: float) -> dict[str, str]:
        """What the progress bar shows of the last step."""
        shown = {"loss": f"{self.last['loss_nats_per_token']:.3f}", "tokens/s": f"{tokens_per_second:,.0f}"}
        return shown | ({"val_perplexity": f"{self.perplexities[-1]:.3f}"} if self.perplexities else {})

    def _remember(self, record: dict[str, Any]) -> None:
        self.last = record
        if "val_perplexity" in record:
            value = record["val_perplexity"]
            self.perplexities.append(math.inf if value is None else value)


def _record(line: bytes) -> dict[str, Any] | None:
    """What a line of metrics.jsonl holds; None if a kill cut it short."""
    try:
        record = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step_num"), int) else None


def run_evaluate(args: argparse.Namespace) -> None:
    """Translate a held-out split and print the scores with their signature."""
    check_positive(beam_size=args.beam_size)
    if args.output and not args.output.parent.is_dir():
        raise ValueError(f"{args.output}: there is no folder {args.output.parent}")
    translator = Translator.load(args.translator, args.device, args.checkpoint)
    data = args.data or _corpus_of(args.translator)
    split = args.split or (CORPORA[data][0][2] if data in CORPORA else "test")
    pairs = load_pairs(data, split, translator.source, translator.target)
    scores = translator.score(pairs, args.beam_size, args.alpha)
    found = scores.bleu
    how = f"beam {args.beam_size}, alpha {args.alpha}" if args.beam_size > 1 else "greedy"
    print(f"BLEU = {found.score:.2f} on {data} {split}, {translator.source} to {translator.target}, {how}")
    precisions = "/".join(f"{value:.1f}" for value in found.precisions)
    lengths = f"brevity penalty {found.brevity_penalty:.3f}, length ratio {found.length_ratio:.3f}"
    print(f"precisions = {precisions}, {lengths}")
    print(f"signature = {found.signature}")
    if translator.target_tokenizer.bleu_tokenization == "none":
        print("(on the tokenizer's own words; not to be compared with scores on detokenized text)")
    print(f"exact match = {100 * scores.exact_match:.1f} %")
    if args.output:
        args.output.write_text("".join(f"{line}\n" for line in scores.hypotheses), encoding="utf-8")


def _corpus_of(translator: Path) -> str:
    path = translator / "training.json"
    if not path.exists():
        raise ValueError(
            f"{translator} does not say which corpus it is about; give --data, one of {', '.join(CORPORA)}"
        )
    return read_json(path)["run"]["data"]


def run_translate(args: argparse.Namespace) -> None:
    """Translate standard input to standard output: a line in, a line out."""
    check_positive(beam_size=args.beam_size)
    translator = Translator.load(args.translator, args.device, args.checkpoint)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # a German word must not end the run in another locale
    lines = _lines(sys.stdin.buffer)
    size = 1 if sys.stdin.isatty() else 1000  # at a terminal the answer comes at once
    for start in itertools.count(1, size):
        chunk = list(itertools.islice(lines, size))
        if not chunk:
            return
        for number, line in enumerate(chunk, start):
            tokens = len(translator.source_tokenizer.encode(line))
            if tokens > MAX_SOURCE_TOKENS:
                print(f"line {number} has {tokens} tokens; the first {MAX_SOURCE_TOKENS} are read", file=sys.stderr)
        for translation in translator.translate(chunk, beam_size=args.beam_size, alpha=args.alpha):
            print(translation, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 2 after an error message, 130 after an interrupt."""
    args = _parser().parse_args(arguments)
    try:
        _set_machine(args)
        args.run(args)
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print(f"stopped {interrupt}".strip(), file=sys.stderr)
        return 130
    finally:
        leave()
    return 0


def _set_machine(args: argparse.Namespace) -> None:
    if args.threads is not None:
        check_positive(threads=args.threads)
        torch.set_num_threads(args.threads)
    try:
        torch.zeros(0, device=args.device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {args.device!r} cannot be used here: {error}") from error


def _lines(stream: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            print(f"line {number} is not UTF-8 ({error}); unreadable bytes are replaced", file=sys.stderr)
            text = line.decode("utf-8", errors="replace")
        yield text.lstrip("\ufeff").strip()  # some editors put a byte order mark before the first line


def _assignments(assignments: list[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ValueError(f"{assignment!r} is not a setting; write it as key=value")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value  # a word, such as norm_order=pre
    return settings


def _alpha(text: str) -> Alpha:
    try:
        alpha: Alpha = "length" if text == "length" else float(text)
        check_alpha(alpha)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 0, nor 'length'") from error
    return alpha


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m transformer_lib", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="train|translate|evaluate")
    common = argparse.ArgumentParser(add_help=False)
    folder = Path("translator")
    common.add_argument(
        "translator",
        type=Path,
        nargs="?",
        default=folder,
        help=f"its folder (default: {folder}), or one of {', '.join(pretrained_names())}",
    )
    common.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    common.add_argument("--threads", type=int, help="CPU threads; default: torch's own choice")
    corpus = argparse.ArgumentParser(add_help=False)
    corpus.add_argument("--data", help=f"one of {', '.join(CORPORA)} (default: number_words, or the folder's)")

    learn = commands.add_parser("train", parents=[common, corpus], help="train on a corpus and write the folder")
    learn.add_argument("--source", help="language to translate from (default: de)")
    learn.add_argument("--target", help="language to translate to (default: en)")
    learn.add_argument("--tokenizer", help="bpe, spacy or space (default: bpe; space for number_words)")
    learn.add_argument("--vocabulary-size", type=int, help="of bpe, shared by both languages (default: 8000)")
    learn.add_argument("--model", nargs="*", default=[], metavar="KEY=VALUE", help="fields of TransformerConfig")
    learn.add_argument("--training", nargs="*", default=[], metavar="KEY=VALUE", help="fields of TrainingConfig")
    learn.add_argument("--validate-every", type=int, metavar="STEPS", help="also saves a checkpoint (default: 200)")
    learn.add_argument("--keep-last", type=int, metavar="K", help="checkpoints to keep, besides the best (default: 5)")
    learn.add_argument("--patience", type=int, metavar="N", help="stop after N validations that bring nothing better")
    learn.add_argument("--minutes", type=float, help="stop after this long")
    learn.add_argument("--resume", action="store_true", help="go on from the folder's newest intact checkpoint")
    learn.set_defaults(run=run_train)

    search = argparse.ArgumentParser(add_help=False)
    names = get_args(Weights)
    search.add_argument("--checkpoint", choices=names, default=names[0], help="average: of the last (default: latest)")
    search.add_argument("--beam-size", type=int, default=1, help="candidates a sentence (default: 1, greedy; paper: 4)")
    penalty = "of the beam's length penalty (default: 0.6, the paper's), or 'length': score divided by tokens"
    search.add_argument("--alpha", type=_alpha, default=0.6, help=penalty)

    speak = commands.add_parser("translate", parents=[common, search], help="translate standard input, line by line")
    speak.set_defaults(run=run_translate)

    judge = commands.add_parser("evaluate", parents=[common, corpus, search], help="BLEU with its signature on a split")
    judge.add_argument("--split", help="such as val (default: the corpus's test split)")
    judge.add_argument("--output", type=Path, help="write the hypotheses to this file, one a line")
    judge.set_defaults(run=run_evaluate)
    return parser
