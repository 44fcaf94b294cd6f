"""The command line: train a translator, translate lines with it, evaluate it, export it."""

import argparse
import os
import sys
import warnings
from pathlib import Path
from typing import Any, TextIO, get_args

import torch

from transformer_lib.config import check_positive
from transformer_lib.decoding import PAPERS_ALPHA, Alpha, check_alpha

from .checkpoints import WhichWeights
from .commands.evaluate import add_evaluate, run_evaluate
from .commands.export import add_export
from .commands.train import add_train, run_train
from .commands.translate import add_options, run_translate
from .distributed import available_device
from .translator import pretrained_names

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

    speak = commands.add_parser(
        "translate",
        parents=[common, search],
        usage=USAGE,
        help="translate standard input, one sentence a line, a line out; 1,000 at a time, at a terminal one",
    )
    add_options(speak)
    speak.set_defaults(run=run_translate)

    scores = "scores with their signatures, of one reference each"
    judge = commands.add_parser("evaluate", parents=[common, search], usage=USAGE, help=scores)
    add_evaluate(judge)
    judge.set_defaults(run=run_evaluate)

    add_export(commands, common)
    return top
