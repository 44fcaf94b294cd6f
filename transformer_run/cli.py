"""The command line: train a translator, translate lines with it, evaluate it, export it."""

import argparse
import itertools
import json
import os
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO, get_args

import torch

from transformer_lib.config import TransformerConfig, check_positive
from transformer_lib.data.corpora import CORPORA, check_corpus, load_pairs
from transformer_lib.data.text_files import Pair, TextPairs
from transformer_lib.decoding import PAPERS_ALPHA, Alpha, check_alpha
from transformer_lib.evaluation import Bleu, chrf

from .checkpoints import WhichWeights
from .commands.export import add_export
from .commands.translate import (
    CONTROL,
    add_options,
    check_output,
    checked_alpha,
    loaded,
    run_translate,
    whole_file,
)
from .distributed import available_device, process_group
from .languages import check_languages, named_language
from .preparation import read_corpus
from .run_config import FINE_TUNING, MODELS, RUN_CONFIG, WATCHED, RunConfig
from .training_run import Run, goes_on
from .translator import Translator, description, find_folder, pretrained_names, progress_bar

Settings = dict[str, Any]
METRICS = ("bleu", "chrf")
OWN_WORDS = "\n(on the tokenizer's own words; not to be compared with scores on detokenized text)"
FILES = "two text files, line by line translations, source first; or one with a tab between the sides; plain or "
FILES += f"gzip, UTF-8; or one of {', '.join(CORPORA)}"
SEVERAL: Settings = {"nargs": "+", "metavar": "FILE"}
FOLDER: Settings = {"type": Path, "nargs": "?", "default": Path("translator")}
USAGE = "%(prog)s [folder] [options]"  # by itself argparse would put the folder last, where --data takes it
FOLDER_FIRST = "The run's folder stands before --data"


def run_train(args: argparse.Namespace) -> None:
    """Train on a corpus and write the translator, its checkpoints and its metrics into a folder."""
    resume = goes_on(args.translator, args.resume)
    config = _settings(args, resume)
    if os.environ.get("RANK", "0") == "0":  # torchrun's, before anything is read
        print(f"{args.translator}: {config.source} to {config.target}", file=sys.stderr)
    with process_group(args.device) as device, Run.open(args.translator, config, device, resume) as run:
        for note in itertools.chain(run.notes, run.base()):
            print(note, file=sys.stderr)
        steps, total, verb = run.steps(args.minutes), config.training.num_steps, "training"
        if args.minutes:  # which end it, as a rule, before the steps
            total, verb = None, f"training, at most {args.minutes:g} min"
        for record in (bar := progress_bar(steps, total, verb, run.steps_done, run.is_first)):
            bar.set_postfix(run.metrics.shown(record.tokens_per_second), refresh=False)
        for line in run.summary():
            print(line, file=sys.stderr)


def _settings(args: argparse.Namespace, resume: bool) -> RunConfig:
    """The settings of the run in the folder, or of a new one, with those of the command line."""
    if args.minutes is not None and not args.minutes > 0:
        raise ValueError(f"minutes = {args.minutes} must be greater than 0; leave --minutes out for no limit")
    args.data, args.validation = _data(args.data), args.validation and _paths(args.validation)
    before = RunConfig.read(args.translator) if resume else _begin(args)
    own = {field.name for field in fields(RunConfig)} - {"model", "training", "digest"}
    settings = {name: getattr(args, name) for name in own if getattr(args, name) is not None}
    config = before.changed(settings, _model(args.model), _assignments(args.training))
    config = before.resumed(config) if resume else config
    for files in (args.data, args.validation):
        if isinstance(files, list):
            check_languages(files, config.source, config.target)
    if not config.clean and (args.max_length is not None or args.max_ratio is not None):
        raise ValueError("--max-length and --max-ratio bound what cleaning leaves; add --clean, or leave them out")
    if args.vocabulary_size is not None and config.tokenizer != "bpe":
        idle = f"--vocabulary-size bounds bpe alone; the tokenizer {config.tokenizer!r} takes every word"
        warnings.warn(idle, stacklevel=2)
    return config


def _begin(args: argparse.Namespace) -> RunConfig:
    """The settings of a new run, before those of the command line."""
    if not args.begun_from:
        if isinstance(args.data, list):
            _name_languages(args)
        return RunConfig(data=args.data or RunConfig.data)
    if not args.data:
        raise ValueError("--from goes on with a translator on pairs of your own; name them with --data")
    if args.model or args.tokenizer or args.vocabulary_size:
        raise ValueError(f"--model, --tokenizer and --vocabulary-size are those of {args.begun_from}; leave them out")
    base = description(find_folder(args.begun_from))
    for side in ("source", "target"):
        if (given := getattr(args, side)) not in (None, base[side]):
            direction = f"{args.begun_from} translates {base['source']} to {base['target']}"
            raise ValueError(f"--{side} {given}: {direction}; leave --source and --target out")
    return RunConfig.fine_tuning(args.begun_from, base["model"], base["source"], base["target"], args.data)


def _name_languages(args: argparse.Namespace) -> None:
    """Take the languages that are not given from the files' endings, as in train.de train.en."""
    if len(args.data) == 2:
        source, target = map(named_language, args.data)
        args.source, args.target = args.source or source, args.target or target
    if not (args.source and args.target):
        raise ValueError("name the languages of the files: --source fr --target cs (any names)")


def run_evaluate(args: argparse.Namespace) -> None:
    """Translate a held-out split and print the scores with their signature."""
    if sys.stdout is None:
        raise ValueError("standard output is closed, and `evaluate` prints the scores there")
    alpha = checked_alpha(args)  # before anything is loaded
    if args.bleu_tokenize and "bleu" not in args.metrics:
        raise ValueError(f"--bleu-tokenize {args.bleu_tokenize}: no BLEU is asked for; add bleu to --metrics")
    check_output(args.output)
    translator = loaded(args)
    pairs, name = _test_pairs(args, translator)
    scores = translator.score(pairs, args.beam_size, alpha, args.bleu_tokenize)
    how = f"beam {args.beam_size}, alpha {alpha}" if args.beam_size > 1 else "greedy"
    where = f"on {name}, {translator.source} to {translator.target}, {how}"
    tokenizer = translator.target_tokenizer
    hint = OWN_WORDS if tokenizer.bleu_tokenization == "none" else ""
    for metric in dict.fromkeys(args.metrics):
        if metric == "bleu":
            _print_bleu(scores.bleu, where, hint)
        else:
            found = chrf(scores.hypotheses, scores.references, lowercase=tokenizer.lowercase)
            print(f"chrF = {found.score:.2f} {where}\nsignature = {found.signature}{hint}")
    print(f"exact match = {100 * scores.exact_match:.1f} %{hint}")
    if args.output:
        lines = "".join(f"{line.translate(CONTROL)}\n" for line in scores.hypotheses)
        with whole_file(args.output) as part:
            part.write_text(lines, encoding="utf-8", newline="\n")


def _print_bleu(bleu: Bleu, where: str, hint: str) -> None:
    print(f"BLEU = {bleu.score:.2f} {where}")
    precisions = "/".join(f"{value:.1f}" for value in bleu.precisions)
    lengths = f"brevity penalty {bleu.brevity_penalty:.3f}, length ratio {bleu.length_ratio:.3f}"
    print(f"precisions = {precisions}, {lengths}")
    print(f"signature = {bleu.signature}{hint}")
    if not bleu.precisions[-1]:
        print("(no translation has four words, and BLEU counts runs of four: see exact match, or --bleu-tokenize char)")


def _test_pairs(args: argparse.Namespace, translator: Translator) -> tuple[list[Pair], str]:
    """The pairs to score on, and what they are called: files given, a split given, or what the run itself says."""
    data = _data(args.data)
    config = None
    if data is None:
        if not (args.translator / RUN_CONFIG).exists():
            known = ", ".join(CORPORA)
            raise ValueError(f"{args.translator} does not say its corpus; give --data, two files or one of {known}")
        config = RunConfig.read(args.translator)
        data = config.data
    if isinstance(data, str):
        split = args.split or (CORPORA[data][0][2] if data in CORPORA else "test")
        return load_pairs(data, split, translator.source, translator.target), f"{data} {split}"
    if args.split:
        raise ValueError(f"--split {args.split}: files have no splits; name the files to score on with --data")
    if config is None:
        check_languages(data, translator.source, translator.target)
        return list(TextPairs(data)), " and ".join(data)
    return read_corpus(config).held_out, "its validation pairs"


def _data(given: list[str] | None) -> str | list[str] | None:
    """The name of a corpus, or the paths of files."""
    if not given or not (given[0] in CORPORA or (len(given) == 1 and not Path(given[0]).exists())):
        return given and _paths(given)
    if len(given) > 1:
        raise ValueError(f"--data {' '.join(given)}: give one corpus name, or files. {FOLDER_FIRST}")
    check_corpus(given[0])
    return given[0]


def _paths(files: list[str]) -> list[str]:
    for file in files:
        if Path(file).is_dir():
            raise ValueError(f"{file} is a folder, no file of sentences. {FOLDER_FIRST}")
        if not Path(file).exists():
            raise ValueError(f"{file}: there is no such file. {FOLDER_FIRST}")
        if not Path(file).is_file():
            raise ValueError(f"{file} is no regular file, and a corpus is read several times; write it to a file")
    return [str(Path(file).absolute()) for file in files]  # a run may be resumed from another folder


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 2 after an error message, 130 after an interrupt, 141 where
    training lost the reader of its progress."""
    args = _parser().parse_args(arguments)
    if sys.stderr is None:  # closed: print would write to stdout instead
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115, open to the end
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # each cut line
            warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
            _set_machine(args)
            args.run(args)
        _flush()
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        _discard(sys.stdout)
        if args.run is run_train:  # which writes of its progress alone, and has stopped
            _discard(sys.stderr)
            return 141
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        try:
            _flush()
        except OSError:  # a full disk
            _discard(sys.stdout)
        return 2
    except torch.OutOfMemoryError as error:
        remedy = "Train into a new folder with a smaller batch_tokens (--training); decode with a smaller --beam-size."
        print(f"error: {error}\n{remedy}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print(f"stopped {interrupt}".strip(), file=sys.stderr)
        return 130
    return 0


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()  # later, at the interpreter's exit, nobody would catch the error


def _discard(stream: TextIO) -> None:
    # What waits in the buffer goes nowhere: written at the interpreter's exit, it would fail once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _set_machine(args: argparse.Namespace) -> None:
    if args.threads is not None:
        check_positive(threads=args.threads)
        torch.set_num_threads(args.threads)
    if args.device == "auto":
        args.device = available_device()
    try:
        torch.zeros(0, device=args.device)
    except (RuntimeError, AssertionError) as error:
        why = str(error).strip().splitlines()[0]
        why = "PyTorch has no device of this name" if "one of" in why else why
        raise ValueError(f"device {args.device!r} cannot be used here: {why}; name cpu, cuda, cuda:1 or mps") from error


def _model(given: list[str]) -> Settings:
    """The fields of a model by name, then those given one by one."""
    named: Settings = {}
    for name in given:
        named |= MODELS.get(name, {})
    return named | _assignments([setting for setting in given if setting not in MODELS])


def _assignments(assignments: list[str]) -> Settings:
    settings: Settings = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ValueError(f"{assignment!r} is not a setting; write it as key=value")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            # A word, such as norm_order=pre; True, False and None as the messages write them.
            settings[key] = {"True": True, "False": False, "None": None}.get(value, value)
    return settings


def _alpha(text: str) -> Alpha:
    try:
        alpha: Alpha = "length" if text == "length" else float(text)
        check_alpha(alpha)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 100, nor 'length'") from error
    return alpha


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m transformer_run", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="train|translate|evaluate|export")
    common = argparse.ArgumentParser(add_help=False)
    devices = "such as cuda:1; auto (default): cuda, then mps (of which no run is recorded), then cpu"
    common.add_argument("--device", default="auto", help=devices)
    common.add_argument("--threads", type=int, help="CPU threads; default: torch's own choice")
    _add_train(commands, common)

    search = argparse.ArgumentParser(add_help=False)
    trained = f"its folder (default: translator), or one of {', '.join(pretrained_names())}"
    search.add_argument("translator", **FOLDER, help=trained)
    names = get_args(WhichWeights)
    search.add_argument("--checkpoint", choices=names, help="average: of the last (default: best)")
    search.add_argument("--beam-size", type=int, default=1, help="candidates a sentence (default: 1, greedy; paper: 4)")
    penalty = f"of the beam's length penalty (default: {PAPERS_ALPHA}, the paper's), or 'length': the score per token"
    search.add_argument("--alpha", type=_alpha, help=penalty)

    speak = commands.add_parser(
        "translate",
        parents=[common, search],
        usage=USAGE,
        help="translate standard input, one sentence a line, a line out; 1,000 at a time, at a terminal one",
    )
    add_options(speak)
    speak.set_defaults(run=run_translate)

    judge = commands.add_parser(
        "evaluate",
        parents=[common, search],
        usage=USAGE,
        help="scores with their signatures, of one reference each",
    )
    judge.add_argument("--data", **SEVERAL, help=f"{FILES} (default: the run's corpus; of own files what validates)")
    judge.add_argument("--split", help="of a corpus by name, such as val (default: its test split)")
    judge.add_argument("--bleu-tokenize", help="sacreBLEU's: 13a, zh, char … (default: as the target's script needs)")
    metrics: Settings = {"nargs": "+", "choices": METRICS, "default": ["bleu"]}
    judge.add_argument("--metrics", **metrics, help="sacreBLEU's (default: bleu)")
    judge.add_argument("--output", type=Path, help="write the hypotheses to this new file, one a line")
    judge.set_defaults(run=run_evaluate)

    add_export(commands, common, _test_pairs)
    return parser


def _add_train(commands: Any, common: argparse.ArgumentParser) -> None:
    about = "train on a corpus and write the folder"
    fields_at = f"All fields of --model and --training: python -m pydoc {TransformerConfig.__module__}"
    learn = commands.add_parser("train", parents=[common], usage=USAGE, help=about, epilog=fields_at)
    learn.add_argument("--data", **SEVERAL, help=f"{FILES} (default: the run's; for a new one number_words)")
    learn.add_argument("translator", **FOLDER, help="the folder to write (default: translator)")
    learn.add_argument("--validation", **SEVERAL, help="likewise (default: a part of one's own files)")
    languages = "default: as files end, train.de train.en or pt_BR; else"
    learn.add_argument("--source", help=f"language to translate from, any name for one's own files ({languages} de)")
    learn.add_argument("--target", help=f"language to translate to ({languages} en)")
    learn.add_argument(
        "--clean", action="store_true", default=None, help="mend or leave out pairs that look wrong; say how many"
    )
    learn.add_argument("--max-length", type=int, help="with --clean: most characters on one side (default: 500)")
    learn.add_argument("--max-ratio", type=float, help="with --clean: of the lengths' ratio to its median (default: 4)")
    learn.add_argument("--tokenizer", help="bpe, spacy or space (default: bpe; space for number_words)")
    learn.add_argument(
        "--vocabulary-size",
        type=int,
        help="of bpe, of both languages (default: 8000, or what they give)",
    )
    begun = f"go on with a finished translator, a folder or one of {', '.join(pretrained_names())}: its tokenizer, a "
    tuned = f"num_steps={FINE_TUNING.num_steps} rate_factor={FINE_TUNING.rate_factor}"
    begun += f"low rate ({tuned} warmup_steps={FINE_TUNING.warmup_steps}), "
    begun += f"--validate-every {WATCHED['validate_every']} --patience {WATCHED['patience']}"
    learn.add_argument("--from", dest="begun_from", metavar="TRANSLATOR", help=begun)
    paper = "base, the paper's, which needs a GPU; d_k=64 d_v=64 also where d_model is smaller"
    assigned: dict[str, Any] = {"nargs": "*", "action": "extend", "default": [], "metavar": "KEY=VALUE"}
    learn.add_argument("--model", **assigned, help=f"small, or fields of TransformerConfig (default: {paper})")
    steps = f"num_steps={RunConfig.training.num_steps} batch_tokens={RunConfig.training.batch_tokens}"
    learn.add_argument("--training", **assigned, help=f"fields of TrainingConfig (default: {steps}; else the paper's)")
    learn.add_argument("--validate-every", type=int, metavar="STEPS", help="also saves a checkpoint (default: 200)")
    learn.add_argument("--keep-last", type=int, metavar="K", help="checkpoints to keep, besides the best (default: 5)")
    learn.add_argument("--patience", type=int, metavar="N", help="stop after N validations that bring nothing better")
    learn.add_argument("--minutes", type=float, help="of training, at most; preparing the corpus is not counted")
    learn.add_argument("--resume", action="store_true", help="go on from the folder's newest intact checkpoint")
    learn.set_defaults(run=run_train)
