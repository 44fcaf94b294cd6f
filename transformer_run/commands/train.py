"""The command `train`: a corpus becomes a translator in a folder."""

import argparse
import itertools
import os
import sys
import warnings
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from transformer_lib.config import TransformerConfig
from transformer_lib.data.corpora import CORPORA

from ..distributed import process_group
from ..languages import check_languages, named_language
from ..settings import FINE_TUNING, WATCHED, RunConfig, assignments, corpus_or_files, existing_files, named_model
from ..training_run import Run, goes_on
from ..translator import Translator, pretrained_names, progress_bar

FILES = "two text files, line by line translations, source first; or one with a tab between the sides; plain or "
FILES += f"gzip, UTF-8; or one of {', '.join(CORPORA)}"
SEVERAL: dict[str, Any] = {"nargs": "+", "metavar": "FILE"}


def add_train(learn: argparse.ArgumentParser) -> None:
    """Add the options of `train` to its parser."""
    fields_at = f"All fields of --model and --training: python -m pydoc {TransformerConfig.__module__}"
    learn.epilog = fields_at
    written = "the folder to write (default: translator)"
    learn.add_argument("--data", **SEVERAL, help=f"{FILES} (default: the run's; for a new one number_words)")
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
    return RunConfig.fine_tuning(args.begun_from, asdict(base.model.config), base.source, base.target, data)
