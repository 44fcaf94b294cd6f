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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch

from .checkpoints import load_checkpoint, save_checkpoint
from .config import TrainingConfig, TransformerConfig, check_positive, config_from_dict
from .data.batches import token_batches
from .data.corpora import CORPORA, load_pairs
from .data.tokenizers import Tokenizer, load_tokenizer, train_tokenizer
from .decoding import MAX_SOURCE_TOKENS, translate
from .evaluation import Bleu, bleu, exact_match, import_sacrebleu, perplexity
from .training import adam, passes, train
from .transformer import Transformer, count_parameters


@dataclass
class Translator:
    """A model, its two tokenizers and its direction: what a folder written by `train` holds."""

    model: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    source: str
    target: str

    def save(self, folder: Path) -> None:
        """Write everything but the weights, which the checkpoint holds."""
        folder.mkdir(parents=True, exist_ok=True)
        described = {
            "source": self.source,
            "target": self.target,
            "model": asdict(self.model.config),
            "source_tokenizer": self.source_tokenizer.to_json(),
            "target_tokenizer": self.target_tokenizer.to_json(),
        }
        (folder / "translator.json").write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> "Translator":
        """Read a folder written by `train`. Raises FileNotFoundError or ValueError if it is not one."""
        path = folder / "translator.json"
        if not path.exists():
            raise FileNotFoundError(f"{folder} holds no trained translator: {path.name} is missing; run `train` first")
        described = _read_json(path)
        try:
            config = config_from_dict(TransformerConfig, described["model"])
            tokenizers = [load_tokenizer(described[f"{side}_tokenizer"]) for side in ("source", "target")]
            direction = described["source"], described["target"]
        except ImportError:
            raise
        except Exception as error:  # the tokenizers library raises bare exceptions
            raise ValueError(f"{path} is altered or no translator of this library: {error!r}") from error
        model = Transformer(config).to(device)
        load_checkpoint(folder / "checkpoint.pt", model)
        return cls(model, tokenizers[0], tokenizers[1], *direction)

    def encode(self, pairs: list[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """Both sides of each pair as ids."""
        return [(self.source_tokenizer.encode(s), self.target_tokenizer.encode(t)) for s, t in pairs]

    def translate(self, sentences: list[str], progress: bool = False, beam_size: int = 1) -> list[str]:
        """One translation for each sentence, in the same order; beam_size 1 decodes greedily."""
        done = translate(self.model, sentences, self.source_tokenizer, self.target_tokenizer, beam_size=beam_size)
        translations = dict(_progress(done, len(sentences), "translating") if progress else done)
        return [translations[i] for i in range(len(sentences))]

    def score(self, pairs: list[tuple[str, str]], beam_size: int = 1) -> "Scores":
        """Translate the sources and compare with the targets, as far as the tokenizer keeps them."""
        import_sacrebleu()  # before the long work
        tokenizer = self.target_tokenizer
        hypotheses = self.translate([source for source, _ in pairs], progress=True, beam_size=beam_size)
        references = [tokenizer.normalize(target) for _, target in pairs]
        score = bleu(hypotheses, references, tokenizer.lowercase, tokenizer.bleu_tokenization)
        return Scores(score, exact_match(hypotheses, references), hypotheses)


class Scores(NamedTuple):
    """What a translator reached on one split."""

    bleu: Bleu
    exact_match: float
    hypotheses: list[str]


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


def run_train(args: argparse.Namespace) -> None:
    """Train on a corpus and write the translator, its checkpoint and its metrics into a folder."""
    check_positive(validate_every=args.validate_every)
    folder, checkpoint = args.translator, args.translator / "checkpoint.pt"
    settings = _training_settings(args)
    run, config = settings["run"], config_from_dict(TrainingConfig, settings["training"])
    pairs, held_out = (load_pairs(run["data"], split, run["source"], run["target"]) for split in ("train", "val"))
    torch.manual_seed(config.seed)
    translator = Translator.load(folder, args.device) if args.resume else new_translator(settings, pairs)
    model = translator.model.to(args.device)
    optimizer = adam(model, config)
    steps_done = load_checkpoint(checkpoint, model, optimizer) if args.resume else 0
    if steps_done >= config.num_steps:
        raise ValueError(f"num_steps = {config.num_steps}, but {folder} has {steps_done} behind it; give a larger one")
    train_ids, val_ids = translator.encode(pairs), translator.encode(held_out)
    records = train(model, optimizer, passes(train_ids, config), config, steps_done)
    bar = _progress(records, config.num_steps, "training", steps_done)
    if not args.resume:
        translator.save(folder)
    (folder / "training.json").write_text(json.dumps(settings), encoding="utf-8")
    size = f"{len(pairs)} pairs, {count_parameters(model)} parameters"
    print(f"{size}, {args.device}, {steps_done} steps done", file=sys.stderr)
    stop_at = time.monotonic() + args.minutes * 60 if args.minutes is not None else math.inf
    saved = steps_done
    try:
        with _metrics(folder / "metrics.jsonl", steps_done) as metrics:
            for record in bar:
                line: dict[str, Any] = asdict(record)
                last = record.step_num == config.num_steps or time.monotonic() > stop_at
                if last or record.step_num % args.validate_every == 0:
                    save_checkpoint(checkpoint, model, optimizer, record.step_num)
                    saved = record.step_num
                    line["val_perplexity"] = perplexity(model, token_batches(val_ids, config.batch_tokens))
                    bar.set_postfix(loss=record.loss_nats_per_token, val_perplexity=line["val_perplexity"])
                metrics.write(json.dumps(line) + "\n")
                metrics.flush()
                if last:
                    break
    except KeyboardInterrupt:
        where = f"at the checkpoint of step {saved}; --resume goes on" if saved else "before the first checkpoint"
        raise KeyboardInterrupt(where) from None


def _training_settings(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What the run is about, its model and its training: from the command line, or from the run that is resumed."""
    given = {
        "run": {name: getattr(args, name) for name in RUN if getattr(args, name) is not None},
        "model": _assignments(args.model),
        "training": _assignments(args.training),
    }
    if args.resume:
        settings = _read_json(args.translator / "training.json")
        changed = [
            f"{key} = {value!r} (was {settings[part].get(key)!r})"
            for part, values in given.items()
            for key, value in values.items()
            if key != "num_steps" and settings[part].get(key) != value
        ]
        if changed:
            raise ValueError(f"{', '.join(changed)}: a resumed run keeps its settings; only num_steps may change")
    elif (args.translator / "checkpoint.pt").exists():
        raise ValueError(f"{args.translator} holds a trained translator; add --resume to go on, or name another folder")
    else:
        settings = {"run": dict(RUN), "model": {}, "training": {"num_steps": 2000, "batch_tokens": 4000}}
    settings = {part: settings[part] | given[part] for part in given}
    run = settings["run"]
    run["tokenizer"] = run["tokenizer"] or ("space" if run["data"] == "number_words" else "bpe")
    check_positive(vocabulary_size=run["vocabulary_size"])
    return settings


def _metrics(path: Path, steps_done: int) -> TextIO:
    """The file of records, cut back to the steps that the checkpoint has behind it, to be written on."""
    kept = path.read_text(encoding="utf-8").splitlines(keepends=True)[:steps_done] if path.exists() else []
    path.write_text("".join(kept), encoding="utf-8")
    return path.open("a", encoding="utf-8")


def run_evaluate(args: argparse.Namespace) -> None:
    """Translate a held-out split and print the scores with their signature."""
    check_positive(beam_size=args.beam_size)
    if args.output and not args.output.parent.is_dir():
        raise ValueError(f"{args.output}: there is no folder {args.output.parent}")
    translator = Translator.load(args.translator, args.device)
    data = args.data or _read_json(args.translator / "training.json")["run"]["data"]
    split = args.split or (CORPORA[data][0][-1] if data in CORPORA else "test")
    scores = translator.score(load_pairs(data, split, translator.source, translator.target), args.beam_size)
    how = f"beam {args.beam_size}" if args.beam_size > 1 else "greedy"
    print(f"BLEU = {scores.bleu.score:.2f} on {data} {split}, {translator.source} to {translator.target}, {how}")
    print(f"signature = {scores.bleu.signature}")
    if translator.target_tokenizer.bleu_tokenization == "none":
        print("(on the tokenizer's own words; not to be compared with scores on detokenized text)")
    print(f"exact match = {100 * scores.exact_match:.1f} %")
    if args.output:
        args.output.write_text("".join(f"{line}\n" for line in scores.hypotheses), encoding="utf-8")


def run_translate(args: argparse.Namespace) -> None:
    """Translate standard input to standard output: a line in, a line out."""
    check_positive(beam_size=args.beam_size)
    translator = Translator.load(args.translator, args.device)
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
        for translation in translator.translate(chunk, beam_size=args.beam_size):
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


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is truncated or altered: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is altered: it should hold an object, not {content!r:.40}")
    return content


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


def _progress(steps: Iterable[Any], total: int, verb: str, done: int = 0) -> Any:
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("the command line needs tqdm: pip install 'transformer-lib[text]'") from error
    return tqdm(steps, total=total, desc=verb, initial=done, mininterval=1.0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m transformer_lib", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="train|translate|evaluate")
    common = argparse.ArgumentParser(add_help=False)
    folder = Path("translator")
    common.add_argument("translator", type=Path, nargs="?", default=folder, help=f"its folder (default: {folder})")
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
    learn.add_argument("--validate-every", type=int, default=200, metavar="STEPS", help="also saves the checkpoint")
    learn.add_argument("--minutes", type=float, help="stop after this long")
    learn.add_argument("--resume", action="store_true", help="go on from the folder's checkpoint")
    learn.set_defaults(run=run_train)

    search = argparse.ArgumentParser(add_help=False)
    search.add_argument("--beam-size", type=int, default=1, help="candidates a sentence (default: 1, greedy; paper: 4)")

    speak = commands.add_parser("translate", parents=[common, search], help="translate standard input, line by line")
    speak.set_defaults(run=run_translate)

    judge = commands.add_parser("evaluate", parents=[common, corpus, search], help="BLEU with its signature on a split")
    judge.add_argument("--split", help="such as val (default: the corpus's test split)")
    judge.add_argument("--output", type=Path, help="write the hypotheses to this file, one a line")
    judge.set_defaults(run=run_evaluate)
    return parser
