"""The command `export`: a trained translator in the format of another program."""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any, get_args

from safetensors.torch import load_file

from ..checkpoints import WhichWeights, whole
from ..export.ctranslate2 import Engine
from ..quantization import SCALE
from ..settings import SEVERAL
from ..translator import find_folder, model_file, pretrained_names
from .evaluate import test_pairs
from .translate import check_free, loaded

FORMATS = {  # by what `--to` says: what is written, and the packages that write it
    "ctranslate2": ("a folder for CTranslate2", "ctranslate2"),
    "marian": ("a folder that transformers loads as a MarianMTModel", "transformers"),
    "onnx": ("a folder for ONNX Runtime", "onnx onnxscript"),
    "page": ("a file that the book's page *Try it in the page* opens", "onnx onnxscript"),
}


def add_export(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to those of the parser."""
    about = "write a translator in the format of another program"
    parser = commands.add_parser("export", parents=[common], help=about, description=about)
    parser.add_argument("translator", type=Path, help=f"its folder, or one of {', '.join(pretrained_names())}")
    parser.add_argument("output", type=Path, help="what to write; nothing of this name may be there")
    formats = "; ".join(f"{name}: {what}" for name, (what, _) in FORMATS.items())
    parser.add_argument("--to", choices=FORMATS, required=True, help=formats)
    int8 = "with ctranslate2: matrices in 8 bits, as page has them; says what that does to BLEU on the pairs of --data"
    parser.add_argument("--int8", action="store_true", help=int8)
    data = "as evaluate has it: what 8 bits are judged by; with page, sentences that the page offers as examples, too"
    parser.add_argument("--data", **SEVERAL, help=data)
    parser.add_argument("--split", help="of a corpus by name, as evaluate has it")
    names = get_args(WhichWeights)
    parser.add_argument("--checkpoint", choices=names, help="average: of the last (default: best)")
    parser.set_defaults(run=run_export)


def run_export(args: argparse.Namespace) -> None:
    """Write the translator in the format asked for; nothing is left of an export that fails.

    Raises:
        ImportError: a package that writes the format is missing.
        ValueError: a name that is taken, options that do not fit, or what the format cannot express.
    """
    check_free(args.output)
    if args.int8 and args.to != "ctranslate2":
        raise ValueError(f"--int8 goes with --to ctranslate2, not with {args.to}")
    module = _module(args.to)
    translator = loaded(args, "cpu")
    pairs, name = test_pairs(args, translator) if args.int8 or args.data else ([], "")
    options: dict[str, Any] = {"int8": True} if args.int8 else {}
    if args.to == "page":
        path = model_file(find_folder(args.translator))
        packed = load_file(path) if path.exists() else {}
        if not any(weight.endswith(SCALE) for weight in packed):
            packed = module.packed_weights(translator.model)
        options = {"packed": packed, "sentences": [source for source, _ in pairs]}
    check_free(args.output)  # still: reading the translator took a while
    with whole(args.output) as part:
        if args.to != "page":
            part.mkdir()
        getattr(module, f"export_{args.to}")(translator, part, **options)
    print(f"written to {args.output}", file=sys.stderr)
    if pairs and (args.int8 or args.to == "page"):
        rounded = Engine(translator, int8=True) if args.int8 else module.rounded(translator, options["packed"])
        scores = [translator.score(pairs, engine=engine).bleu.score for engine in (None, rounded)]
        print(f"BLEU on {name}, greedy: {scores[0]:.2f} in float32, {scores[1]:.2f} in 8 bits")


def _module(to: str) -> Any:
    try:
        return importlib.import_module(f"transformer_run.export.{to}")
    except ImportError as error:
        raise ImportError(f"--to {to} needs more packages: pip install {FORMATS[to][1]} ({error})") from error
