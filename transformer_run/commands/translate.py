"""The command `translate`: a line in, a line out, from standard input or a file to standard output or a file."""

import argparse
import io
import itertools
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformer_lib.data.text_files import file_lines, lines
from transformer_lib.data.tokenizers import warned_of_unseen
from transformer_lib.decoding import PAPERS_ALPHA, Alpha, check_beam_size

from ..checkpoints import whole
from ..export.ctranslate2 import Engine
from ..translator import Translator, check_n_best, progress_bar

# Printed raw, they would end the line or move the cursor.
CONTROL = dict.fromkeys([*range(32), *range(127, 160), 0x2028, 0x2029], " ")
ENGINES = ("pytorch", "ctranslate2")
CHUNK = 1000  # lines that are translated together


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `translate` to its parser."""
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help=f"what decodes (default: {ENGINES[0]})")
    several = "so many texts of each line, best first, each on a line of its own after the line's number and a tab"
    parser.add_argument("--n-best", type=int, metavar="N", help=several)
    scores = "before each translation its log-probability over the length penalty, and a tab"
    parser.add_argument("--scores", action="store_true", help=scores)
    parser.add_argument("--input", type=Path, metavar="FILE", help="read it in place of standard input")
    output = "write it, whole or not at all, in place of standard output; shows a bar"
    parser.add_argument("--output", type=Path, metavar="FILE", help=output)


def run_translate(args: argparse.Namespace) -> None:
    """Translate lines: as they come from standard input, or those of a file."""
    if (sys.stdin is None and not args.input) or (sys.stdout is None and not args.output):
        raise ValueError("standard input or output is closed; `translate` reads the one and writes the other")
    alpha = checked_alpha(args)  # before anything is loaded
    check_options(args)
    translator = loaded(args)
    engine = Engine(translator, args.device, args.threads) if args.engine == ENGINES[1] else translator
    texts = warned_of_unseen(_lines(args), translator.source_tokenizer)
    at_terminal = not args.input and sys.stdin is not None and sys.stdin.isatty()
    written = _translated(args, translator, engine, alpha, texts, 1 if at_terminal else CHUNK)
    if args.output:
        _write(args, written)
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # a German word must not end the run in another locale
    for text in written:
        print(text, end="", flush=True)


def _lines(args: argparse.Namespace) -> Iterator[str]:
    if args.input:
        return file_lines(args.input, strict=False)
    return lines(sys.stdin.buffer, "standard input", strict=False)


def check_options(args: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go together, or for files that cannot be read or written."""
    check_n_best(args.n_best, args.beam_size)
    if args.engine == ENGINES[1] and (args.n_best or args.scores):
        raise ValueError(f"--n-best and --scores go with --engine {ENGINES[0]}")
    if args.input and not args.input.exists():
        raise ValueError(f"{args.input}: there is no such file")
    if args.input and args.input.is_dir():
        raise ValueError(f"{args.input} is a folder; name a file in it")
    check_output(args.output)


def check_output(path: Path | None) -> None:
    """Raise ValueError for a file that is there already, or that no folder can hold."""
    if path:
        check_free(path)
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}")


def check_free(path: Path) -> None:
    """Raise ValueError for a file or folder that is there already."""
    if path.exists():
        raise ValueError(f"{path} is there already; name another one")


def _write(args: argparse.Namespace, written: Iterator[str]) -> None:
    """Write the file of --output whole or not at all; an error or Ctrl-C says that it is not written."""
    total, done, path = None, 0, args.output
    try:
        if args.input and args.input.is_file():  # a pipe can be read once
            with warnings.catch_warnings(action="ignore"):  # of what is read again
                total = sum(1 for _ in file_lines(args.input, strict=False))
        with whole(path) as part, part.open("wb") as file:
            for text in progress_bar(written, total, "translating"):
                file.write(text.encode("utf-8"))
                done += 1
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"after {done} lines; {path} is not written") from None
    except ValueError as error:
        raise ValueError(f"{error}; {path} is not written") from error


def _translated(
    args: argparse.Namespace, translator: Translator, engine: Any, alpha: Alpha, texts: Iterator[str], size: int
) -> Iterator[str]:
    """For each line of the input what is written for it, so many lines being translated together."""
    options: dict[str, Any] = {"beam_size": args.beam_size, "alpha": alpha}
    numbers = itertools.count(1)
    while chunk := list(itertools.islice(texts, size)):
        if args.n_best or args.scores:
            found = translator.translate(chunk, **options, n_best=args.n_best or 1, return_scores=True)
        else:
            found = [[(text, 0.0)] for text in engine.translate(chunk, **options)]
        for candidates, number in zip(found, numbers, strict=False):
            yield "".join(_row(args, number, *candidate) for candidate in candidates)


def _row(args: argparse.Namespace, number: int, text: str, score: float) -> str:
    columns = [str(number)] * bool(args.n_best) + [f"{score:.4f}"] * args.scores
    return "\t".join([*columns, text.translate(CONTROL)]) + "\n"


def loaded(args: argparse.Namespace, device: str | None = None) -> Translator:
    """The translator of the command line, on its device or this one; of a run's a line says which weights it has."""
    translator = Translator.load(args.translator, device or args.device, args.checkpoint)
    if translator.weights:
        print(f"{args.translator}: {translator.weights}", file=sys.stderr)
    return translator


def checked_alpha(args: argparse.Namespace) -> Alpha:
    """The alpha of the command line, or the paper's. Raises ValueError for one without a beam."""
    check_beam_size(args.beam_size)
    if args.alpha is not None and args.beam_size == 1 and not getattr(args, "scores", False):
        raise ValueError("--alpha compares the candidates of a beam, and there is one candidate; add --beam-size 4")
    return PAPERS_ALPHA if args.alpha is None else args.alpha
