"""The command `translate`: a line in, a line out, from standard input or a file to standard output or a file."""

import argparse
import io
import itertools
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from transformer_lib.data.tokenizers import warned_of_unseen
from transformer_lib.decoding import Alpha, check_beam_size

from ..export.ctranslate2 import Engine
from ..translator import Translator, check_n_best, progress_bar

# Printed raw, they would end the line or move the cursor.
CONTROL = dict.fromkeys([*range(32), *range(127, 160), 0x2028, 0x2029], " ")
PAPERS_ALPHA = 0.6
ENGINES = ("pytorch", "ctranslate2")
CHUNK = 1000  # lines that are translated together


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `translate` to its parser."""
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help=f"what decodes (default: {ENGINES[0]})")
    several = "so many of each line, best first, each on a line of its own after the line's number and a tab"
    parser.add_argument("--n-best", type=int, metavar="N", help=several)
    scores = "before each translation its log-probability over the length penalty, and a tab"
    parser.add_argument("--scores", action="store_true", help=scores)
    looked = "after each translation a tab and, as in 0-0 1-2, the source word that each of its words looked at most"
    parser.add_argument("--alignment", action="store_true", help=looked)
    parser.add_argument("--input", type=Path, metavar="FILE", help="read it in place of standard input")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it in place of standard output; shows a bar")
    parser.add_argument("--resume", action="store_true", help="go on with what an interrupted --output has left")


def run_translate(args: argparse.Namespace) -> None:
    """Translate lines: as they come from standard input, or those of a file."""
    if (sys.stdin is None and not args.input) or (sys.stdout is None and not args.output):
        raise ValueError("standard input or output is closed; `translate` reads the one and writes the other")
    alpha = checked_alpha(args)  # before anything is loaded
    check_options(args)
    begun = _begun(args)
    translator = loaded(args)
    engine = Engine(translator, args.device, args.threads) if args.engine == ENGINES[1] else translator
    standard = None if args.input or sys.stdin is None else sys.stdin.buffer
    with args.input.open("rb") if standard is None else nullcontext(standard) as stream:
        lines = warned_of_unseen(read_lines(stream), translator.source_tokenizer)
        lines = itertools.islice(lines, begun, None)
        at_terminal = standard is not None and sys.stdin is not None and sys.stdin.isatty()
        written = _translated(args, translator, engine, alpha, lines, begun, 1 if at_terminal else CHUNK)
        if args.output:
            _write(args, written, begun)
            return
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # a German word must not end the run in another locale
        for text in written:
            print(text, end="", flush=True)


def check_options(args: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go together, or for files that cannot be read or written."""
    check_n_best(args.n_best, args.beam_size)
    if args.alignment and args.n_best:
        raise ValueError("--alignment is that of the best translation; leave --n-best out")
    if args.engine == ENGINES[1] and (args.n_best or args.scores or args.alignment):
        raise ValueError(f"--n-best, --scores and --alignment go with --engine {ENGINES[0]}")
    if args.resume and not args.output:
        raise ValueError("--resume goes on with the file of --output; name it")
    if args.input and not args.input.is_file():
        raise ValueError(f"{args.input}: there is no such file")
    if args.output and args.output.exists():
        raise ValueError(f"{args.output} is there already; name another file")


def _part(args: argparse.Namespace) -> Path:
    return args.output.with_name(f"{args.output.name}.part")


def _begun(args: argparse.Namespace) -> int:
    """How many lines of the input an interrupted run has translated; a part of a line that it left is cut off.

    Raises:
        ValueError: there is such a part, and --resume is not given.
    """
    if not args.output or not _part(args).exists():
        return 0
    part = _part(args)
    if not args.resume:
        raise ValueError(f"{part} is left of an interrupted run; add --resume to go on with it, or delete it")
    with part.open("r+b") as file:
        whole = [line for line in file if line.endswith(b"\n")]
        begun = len(whole)
        if args.n_best and whole:  # the last line of the input may lack some of its translations
            last = _number(whole[-1])
            whole = [line for line in whole if _number(line) < last]
            begun = last - 1
        file.truncate(sum(map(len, whole)))
    return begun


def _number(line: bytes) -> int:
    return int(line.split(b"\t", 1)[0])


def _write(args: argparse.Namespace, written: Iterator[str], begun: int) -> None:
    """Write into a part, which becomes the file when it is whole."""
    part, total = _part(args), None
    if args.input:
        with args.input.open("rb") as lines:
            total = sum(1 for _ in lines)
    with part.open("ab") as file:
        done = begun
        try:
            for text in progress_bar(written, total, "translating", begun):
                file.write(text.encode("utf-8"))
                done += 1
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"after {done} lines, which are in {part}; --resume goes on") from None
    part.replace(args.output)


def _translated(
    args: argparse.Namespace,
    translator: Translator,
    engine: Any,
    alpha: Alpha,
    lines: Iterator[str],
    begun: int,
    size: int,
) -> Iterator[str]:
    """For each line of the input what is written for it, so many lines being translated together."""
    options: dict[str, Any] = {"beam_size": args.beam_size, "alpha": alpha}
    numbers = itertools.count(begun + 1)
    while chunk := list(itertools.islice(lines, size)):
        if args.alignment:
            found = [[_aligned(translator, line, options)] for line in chunk]
        elif args.n_best or args.scores:
            ranked = translator.translate(chunk, **options, n_best=args.n_best or 1, return_scores=True)
            found = [[(text, score, "") for text, score in candidates] for candidates in ranked]
        else:
            found = [[(text, 0.0, "")] for text in engine.translate(chunk, **options)]
        for candidates, number in zip(found, numbers, strict=False):
            yield "".join(_row(args, number, *candidate) for candidate in candidates)


def _row(args: argparse.Namespace, number: int, text: str, score: float, alignment: str) -> str:
    columns = {str(number): args.n_best, f"{score:.4f}": args.scores}
    shown = [column for column, wanted in columns.items() if wanted]
    return "\t".join([*shown, text.translate(CONTROL), *[alignment] * args.alignment]) + "\n"


def _aligned(translator: Translator, line: str, options: dict[str, Any]) -> tuple[str, float, str]:
    if not translator.source_tokenizer.encode(line):
        return "", 0.0, ""
    found = translator.attention(line, **options)
    return found.translation, found.score, " ".join(f"{source}-{target}" for source, target in found.alignment)


def loaded(args: argparse.Namespace) -> Translator:
    """The translator of the command line; of a run's folder a line says which weights it has."""
    translator = Translator.load(args.translator, args.device, args.checkpoint)
    if translator.weights:
        print(f"{args.translator}: {translator.weights}", file=sys.stderr)
    return translator


def checked_alpha(args: argparse.Namespace) -> Alpha:
    """The alpha of the command line, or the paper's. Raises ValueError for one without a beam."""
    check_beam_size(args.beam_size)
    if args.alpha is not None and args.beam_size == 1 and not getattr(args, "scores", False):
        raise ValueError("--alpha compares the candidates of a beam, and there is one candidate; add --beam-size 4")
    return PAPERS_ALPHA if args.alpha is None else args.alpha


def read_lines(stream: Iterable[bytes]) -> Iterator[str]:
    """The lines as text; of one that is not UTF-8 a message says so."""
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            print(f"line {number} is not UTF-8 ({error}); unreadable bytes are replaced", file=sys.stderr)
            text = line.decode("utf-8", errors="replace")
        yield text.lstrip("\ufeff").strip()  # some editors put a byte order mark before the first line
