"""The command line: train a translator, translate lines with it, evaluate it, export it."""

import argparse
import itertools
import os
import sys
import warnings
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TextIO, get_args

import torch

from transformer_lib.config import TransformerConfig, check_positive
from transformer_lib.decoding import PAPERS_ALPHA, Alpha, check_alpha

from .checkpoints import CHECKPOINTS, RunCheckpoints, WhichWeights
from .commands.evaluate import add_evaluate, run_evaluate
from .commands.export import add_export
from .commands.translate import add_options, run_translate
from .settings import (
    DATA,
    FINE_TUNING,
    FIXED_BY_TOKENIZER,
    SEVERAL,
    WATCHED,
    RunConfig,
    assignments,
    check_languages,
    corpus_or_files,
    existing_files,
    named_language,
    named_model,
)
from .training_run import LAUNCH, Run
from .translator import MODEL, Translator, pretrained_names, progress_bar
from .update import available_device, process_group

FOLDER: dict[str, Any] = {"type": Path, "nargs": "?", "default": Path("translator")}
USAGE = "%(prog)s [folder] [options]"  # by itself argparse would put the folder last, where --data takes it


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 2 after an error message, 130 after an interrupt, 141 where
    training lost the reader of its progress."""
    args = parser().parse_args(arguments)
    if sys.stderr is None:  # closed: print would write to stdout instead
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115, open to the end
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # each cut line
            warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
            args.run(argparse.Namespace(**{**vars(args), "device": _machine(args.device, args.threads)}))
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


def _machine(device: str, threads: int | None) -> str:
    """Set the number of threads; returns the device. Raises ValueError for one that cannot be used."""
    if threads is not None:
        check_positive(threads=threads)
        torch.set_num_threads(threads)
    device = available_device() if device == "auto" else device
    try:
        torch.zeros(0, device=device)
    except (RuntimeError, AssertionError) as error:
        why = str(error).strip().splitlines()[0]
        why = "PyTorch has no device of this name" if "one of" in why else why
        raise ValueError(f"device {device!r} cannot be used here: {why}; name cpu, cuda, cuda:1 or mps") from error
    return device


def _alpha(text: str) -> Alpha:
    try:
        alpha: Alpha = "length" if text == "length" else float(text)
        check_alpha(alpha)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 100, nor 'length'") from error
    return alpha


def parser() -> argparse.ArgumentParser:
    """Of all four commands."""
    top = argparse.ArgumentParser(prog="python -m transformer_run", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="train|translate|evaluate|export")
    common = argparse.ArgumentParser(add_help=False)
    devices = "such as cuda:1; auto (default): cuda, then mps (of which no run is recorded), then cpu"
    common.add_argument("--device", default="auto", help=devices)
    common.add_argument("--threads", type=int, help="CPU threads; default: torch's own choice")
    write = "train on a corpus and write the folder"
    learn = commands.add_parser("train", parents=[common], usage=USAGE, help=write)
    add_train(learn)
    learn.set_defaults(run=run_train)

    search = argparse.ArgumentParser(add_help=False)
    trained = f"its folder (default: translator), or one of {', '.join(pretrained_names())}"
    search.add_argument("translator", **FOLDER, help=trained)
    names = get_args(WhichWeights)
    search.add_argument("--checkpoint", choices=names, help="average: of the last (default: best)")
    search.add_argument("--beam-size", type=int, default=1, help="candidates a sentence (default: 1, greedy; paper: 4)")
    penalty = f"of the beam's length penalty (default: {PAPERS_ALPHA}, the paper's), or 'length': the score per token"
    search.add_argument("--alpha", type=_alpha, help=penalty)

    out = "translate standard input, one sentence a line, a line out; 1,000 at a time, at a terminal one"
    speak = commands.add_parser("translate", parents=[common, search], usage=USAGE, help=out)
    add_options(speak)
    speak.set_defaults(run=run_translate)

    scores = "scores with their signatures, of one reference each"
    judge = commands.add_parser("evaluate", parents=[common, search], usage=USAGE, help=scores)
    add_evaluate(judge)
    judge.set_defaults(run=run_evaluate)

    add_export(commands, common)
    return top


def add_train(learn: argparse.ArgumentParser) -> None:
    """Add the options of `train` to its parser."""
    fields_at = f"All fields of --model and --training: python -m pydoc {TransformerConfig.__module__}"
    learn.epilog = fields_at
    written = "the folder to write (default: translator)"
    learn.add_argument("--data", **SEVERAL, help=f"{DATA} (default: the run's; for a new one number_words)")
    learn.add_argument("translator", type=Path, nargs="?", default=Path("translator"), help=written)
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
    learn.add_argument("--vocabulary-size", type=int, help="of bpe, both languages (default: 8000, or what they give)")
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


def run_train(args: argparse.Namespace) -> None:
    """Train on a corpus and write the translator, its checkpoints and its metrics into a folder."""
    if args.minutes is not None and not args.minutes > 0:
        raise ValueError(f"minutes = {args.minutes} must be greater than 0; leave --minutes out for no limit")
    resume = goes_on(args.translator, args.resume)
    config = run_config(args, resume)
    if os.environ.get("RANK", "0") == "0":  # torchrun's, before anything is read
        print(f"{args.translator}: {config.source} to {config.target}", file=sys.stderr)
    with process_group(args.device) as device, Run.open(args.translator, config, device, resume) as run:
        for note in itertools.chain(run.notes, run.base()):
            print(note, file=sys.stderr)
        total = None if args.minutes else config.training.num_steps
        bar = progress_bar(run.steps(args.minutes), total, "training", run.steps_done, run.is_first)
        if args.minutes:  # which end it, as a rule, before the steps
            bar.bar_format = f"{{desc}}: {{elapsed}} of {args.minutes:g} min, step {{n_fmt}}{{postfix}}"
        for record in bar:
            bar.set_postfix(run.metrics.shown(record.tokens_per_second), refresh=False)
        for line in run.summary():
            print(line, file=sys.stderr)


def goes_on(folder: Path, resume: bool) -> bool:
    """Whether a run goes on with what its folder has: as asked for, or where torchrun has started it again.

    torchrun starts all processes again, with the same command line, after one of them died; also after a refusal.

    Raises:
        ValueError: there is nothing to go on from, or something that the run would overwrite.
    """
    begun = bool(RunCheckpoints(folder / CHECKPOINTS).paths())
    if resume and not begun:
        raise ValueError(f"{folder} has no checkpoint to go on from; leave --resume out to start")
    launch = (folder / LAUNCH).read_text("utf-8") if (folder / LAUNCH).is_file() else ""
    restarted = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    resume = resume or (begun and restarted and launch == os.environ.get("TORCHELASTIC_RUN_ID"))
    if not resume and (begun or (folder / MODEL).exists()):
        raise ValueError(f"{folder} holds a trained translator; add --resume to go on, or name another folder")
    return resume


def run_config(args: argparse.Namespace, resume: bool) -> RunConfig:
    """The settings that the options of `train` ask for: of the run in the folder, if it is resumed, or of a new one."""
    data, validation = corpus_or_files(args.data), args.validation and existing_files(args.validation)
    before = RunConfig.read(args.translator) if resume else _begun(args, data)
    names = {f.name for f in fields(RunConfig)} & vars(args).keys() - {"model", "training"}
    given = {name: getattr(args, name) for name in names} | {"data": data, "validation": validation}
    given = {name: value for name, value in given.items() if value is not None}
    config = before.changed(given, named_model(args.model), assignments(args.training))
    config = before.resumed(config) if resume else config
    for files in (data, validation):
        if isinstance(files, list):
            check_languages(files, config.source, config.target)
    if not config.clean and (args.max_length is not None or args.max_ratio is not None):
        raise ValueError("--max-length and --max-ratio bound what cleaning leaves; add --clean, or leave them out")
    if args.vocabulary_size is not None and config.tokenizer != "bpe":
        idle = f"--vocabulary-size bounds bpe alone; the tokenizer {config.tokenizer!r} takes every word"
        warnings.warn(idle, stacklevel=2)
    return config


def _begun(args: argparse.Namespace, data: str | list[str] | None) -> RunConfig:
    """The settings of a new run, before those of the command line."""
    if not args.begun_from:
        source, target = map(named_language, data) if isinstance(data, list) and len(data) == 2 else ("", "")
        source, target = args.source or source, args.target or target
        if not isinstance(data, list):
            return RunConfig(data=data or RunConfig.data)
        if not (source and target):
            raise ValueError("name the languages of the files: --source fr --target cs (any names)")
        return RunConfig(data=data, source=source, target=target)
    if not data:
        raise ValueError("--from goes on with a translator on pairs of your own; name them with --data")
    if args.model or args.tokenizer or args.vocabulary_size:
        raise ValueError(f"--model, --tokenizer and --vocabulary-size are those of {args.begun_from}; leave them out")
    base = Translator.load(args.begun_from)
    for side in ("source", "target"):
        if (given := getattr(args, side)) not in (None, getattr(base, side)):
            direction = f"{args.begun_from} translates {base.source} to {base.target}"
            raise ValueError(f"--{side} {given}: {direction}; leave --source and --target out")
    model = {name: value for name, value in asdict(base.model.config).items() if name not in FIXED_BY_TOKENIZER}
    own = {"begun_from": args.begun_from, "source": base.source, "target": base.target, "model": model}
    return replace(RunConfig(data=data, training=FINE_TUNING), **own, **WATCHED)
