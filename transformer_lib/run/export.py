"""The command `export`: a trained translator in the format of another program."""

import argparse
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

from ..data.own_corpus import Pair
from ..evaluation import bleu
from ..interop.ctranslate2 import Engine, export_ctranslate2
from .translator import Translator, WhichWeights, pretrained_names

TestPairs = Callable[[argparse.Namespace, Translator], tuple[list[Pair], str]]
FORMATS: dict[str, tuple[Callable[..., None], str]] = {
    "ctranslate2": (export_ctranslate2, "a folder for the engine in C++"),
}


def add_export(commands: Any, common: argparse.ArgumentParser, test_pairs: TestPairs) -> None:
    """Add the command to those of the parser; `test_pairs` finds the pairs that --data and --split name."""
    about = "write a translator in the format of another program"
    parser = commands.add_parser("export", parents=[common], help=about, description=about)
    parser.add_argument("translator", type=Path, help=f"its folder, or one of {', '.join(pretrained_names())}")
    parser.add_argument("output", type=Path, help="what to write; nothing of this name may be there")
    formats = "; ".join(f"{name}: {what}" for name, (_, what) in FORMATS.items())
    parser.add_argument("--to", choices=FORMATS, required=True, help=formats)
    int8 = "ctranslate2: matrices in 8 bits; says what that does to BLEU on the pairs of --data"
    parser.add_argument("--int8", action="store_true", help=int8)
    parser.add_argument("--data", nargs="+", metavar="FILE", help="with --int8: as evaluate has it")
    parser.add_argument("--split", help="with --int8: as evaluate has it")
    names = get_args(WhichWeights)
    parser.add_argument("--checkpoint", choices=names, default=names[0], help="average: of the last (default: latest)")
    parser.set_defaults(run=partial(run_export, test_pairs=test_pairs))


def run_export(args: argparse.Namespace, test_pairs: TestPairs) -> None:
    """Write the translator in the format asked for; nothing is left of an export that fails."""
    write, _ = FORMATS[args.to]
    if args.output.exists():
        raise ValueError(f"{args.output} is there already; name a new one")
    if args.int8 and args.to != "ctranslate2":
        raise ValueError(f"--int8 is a choice of --to ctranslate2; {args.to} keeps its own precision")
    translator = Translator.load(args.translator, "cpu", args.checkpoint)
    options: dict[str, Any] = {"int8": True} if args.int8 else {}
    try:
        if args.to != "page":
            args.output.mkdir(parents=True)
        write(translator, args.output, **options)
    except BaseException:
        shutil.rmtree(args.output, ignore_errors=True)
        args.output.unlink(missing_ok=True)
        raise
    print(f"written to {args.output}", file=sys.stderr)
    if args.int8:
        print(_bleu_of_both(translator, *test_pairs(args, translator)))


def _bleu_of_both(translator: Translator, pairs: list[Pair], name: str) -> str:
    tokenizer = translator.target_tokenizer
    references = [tokenizer.normalize(target) for _, target in pairs]
    scores = []
    for int8 in (False, True):
        hypotheses = Engine(translator, int8=int8).translate([source for source, _ in pairs])
        scores.append(bleu(hypotheses, references, tokenizer.lowercase, tokenizer.bleu_tokenization).score)
    return f"BLEU on {name}, greedy: {scores[0]:.2f} in float32, {scores[1]:.2f} in int8"
