"""The command `evaluate`: what a translator reaches on pairs that it has not seen."""

import argparse
import sys
from pathlib import Path
from typing import Any

from transformer_lib.data.corpora import CORPORA, load_pairs
from transformer_lib.data.text_files import Pair, TextPairs
from transformer_lib.evaluation import Bleu, chrf

from ..checkpoints import write_file
from ..preparation import read_corpus
from ..settings import DATA, RUN_CONFIG, SEVERAL, RunConfig, check_languages, corpus_or_files
from ..translator import Translator
from .translate import CONTROL, check_output, checked_alpha, loaded

METRICS = ("bleu", "chrf")
OWN_WORDS = "\n(on the tokenizer's own words; not to be compared with scores on detokenized text)"


def add_evaluate(judge: argparse.ArgumentParser) -> None:
    """Add the options of `evaluate` to its parser."""
    judge.add_argument("--data", **SEVERAL, help=f"{DATA} (default: the run's corpus; of own files what validates)")
    judge.add_argument("--split", help="of a corpus by name, such as val (default: its test split)")
    judge.add_argument("--bleu-tokenize", help="sacreBLEU's: 13a, zh, char … (default: as the target's script needs)")
    metrics: dict[str, Any] = {"nargs": "+", "choices": METRICS, "default": ["bleu"]}
    judge.add_argument("--metrics", **metrics, help="sacreBLEU's (default: bleu)")
    judge.add_argument("--output", type=Path, help="write the hypotheses to this new file, one a line")


def run_evaluate(args: argparse.Namespace) -> None:
    """Translate a held-out split and print the scores with their signature."""
    if sys.stdout is None:
        raise ValueError("standard output is closed, and `evaluate` prints the scores there")
    alpha = checked_alpha(args)  # before anything is loaded
    if args.bleu_tokenize and "bleu" not in args.metrics:
        raise ValueError(f"--bleu-tokenize {args.bleu_tokenize}: no BLEU is asked for; add bleu to --metrics")
    check_output(args.output)
    translator = loaded(args)
    pairs, name = test_pairs(args, translator)
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
        write_file(args.output, lines)


def _print_bleu(bleu: Bleu, where: str, hint: str) -> None:
    print(f"BLEU = {bleu.score:.2f} {where}")
    precisions = "/".join(f"{value:.1f}" for value in bleu.precisions)
    lengths = f"brevity penalty {bleu.brevity_penalty:.3f}, length ratio {bleu.length_ratio:.3f}"
    print(f"precisions = {precisions}, {lengths}")
    print(f"signature = {bleu.signature}{hint}")
    if not bleu.precisions[-1]:
        print("(no translation has four words, and BLEU counts runs of four: see exact match, or --bleu-tokenize char)")


def test_pairs(args: argparse.Namespace, translator: Translator) -> tuple[list[Pair], str]:
    """The pairs to score on, and what they are called: files given, a split given, or what the run itself says."""
    data = corpus_or_files(args.data)
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
