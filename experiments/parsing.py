"""Section 6.3 on the treebank sample: a Transformer of four layers reads a sentence and writes its tree.

    python experiments/parsing.py                   every size of the training set with seeds 0 and 1; hours on one core
    python experiments/parsing.py --seeds 0         one seed

The sample has 199 articles of the Wall Street Journal. Whole articles are held out: those whose number ends in 5 are
for validation, those whose number ends in 0 are the test set. The test set is scored once for each seed, with all
training trees. What the 40,000 sentences of the paper would bring is extrapolated from the learning curve on the
validation trees. A run that was cut goes on behind the last finished training, also of another process.
"""

import argparse
import copy
import io
import itertools
import math
import statistics
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, beam_search, count_parameters
from transformer_lib.data import WordTokenizer, make_batch
from transformer_lib.data.corpora import data_folder, fetch
from transformer_lib.data.trees import WORD, Tree, bracket_scores, linearize, mended_tree, read_trees, tidy
from transformer_lib.evaluation import perplexity
from transformer_lib.training import adam, epochs, train
from workshop.lab.experiment import runs as kept_runs
from workshop.lab.provenance import COMMIT, ROOT, provenance, write_result

TREEBANK_URL = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/treebank.zip"
TREEBANK_SHA256 = "9da92d76c3666cfb6cddeaed0f7e86b344cce0f0928a286d439e555f19c37399"
HELD_OUT = {"5": "validation", "0": "test"}  # by the last digit of the article's number
SHARES = (1, 2, 4)  # of the training trees: all, half and a quarter
BANDS = ((1, 10), (11, 20), (21, 30), (31, 999))  # words of a sentence
RARE = 2  # words that training shows less often become <unk>
PAPER_SENTENCES = 40_000
# Section 6.3: four layers, a beam of 21, α = 0.3, at most 300 tokens more than the input. The width is an eighth of
# the paper's 1024, which has ten times the sentences. The paper does not print the dropout that it chose.
MODEL: dict[str, Any] = {
    **{"num_layers": 4, "d_model": 128, "d_ff": 512, "num_heads": 4, "d_k": 32, "d_v": 32, "p_drop": 0.2},
    "norm_order": "pre",
}
TRAINING: dict[str, Any] = {"num_steps": 5000, "batch_tokens": 1000, "warmup_steps": 1000}
BEAM_SIZE, ALPHA, BEYOND_INPUT = 21, 0.3, 300
VALIDATE_EVERY, PATIENCE = 250, 6  # a training ends after so many validations without a lower perplexity
PUNCTUATION = {",", ".", ":", "``", "''"}  # parts of speech that evalb's rule takes out
PARTS = ROOT / "checkpoints" / "parsing"  # finished trainings, until all are in the record
Ids = list[tuple[list[int], list[int]]]


class Treebank(NamedTuple):
    """Trees by split, and a tokenizer for each side."""

    trees: dict[str, list[Tree]]
    source: WordTokenizer
    target: WordTokenizer

    def ids(self, trees: Iterable[Tree]) -> Ids:
        """Words and tree tokens as ids."""
        return [
            (self.source.encode(" ".join(tree.words())), self.target.encode(" ".join(linearize(tree))))
            for tree in trees
        ]


def articles() -> Iterator[tuple[str, list[Tree]]]:
    """The number of each article, such as "0061", and its trees as they are parsed and scored."""
    content = fetch(data_folder() / "treebank" / "treebank.zip", TREEBANK_URL, TREEBANK_SHA256)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(".mrg")):
            trees = map(tidy, read_trees(archive.read(name).decode("ascii")))
            yield Path(name).stem.removeprefix("wsj_"), [tree for tree in trees if tree is not None]


def treebank(share: int = 1) -> Treebank:
    """The three splits, of the training trees every share-th. The vocabularies come from those alone."""
    split: dict[str, list[Tree]] = {"train": [], "validation": [], "test": []}
    for number, trees in articles():
        split[HELD_OUT.get(number[-1], "train")] += trees
    split["train"] = split["train"][::share]
    source = WordTokenizer.train((" ".join(tree.words()) for tree in split["train"]), min_frequency=RARE)
    target = WordTokenizer.train(" ".join(linearize(tree)) for tree in split["train"])
    return Treebank(split, source, target)


def trained(
    bank: Treebank, model: dict[str, Any], training: dict[str, Any], seed: int
) -> tuple[Transformer, list[Any]]:
    """The model with the lowest perplexity on the validation trees, and (step, perplexity) of each validation."""
    settings = TrainingConfig(**training, seed=seed)
    sizes = {"vocabulary_size": len(bank.target), "source_vocabulary_size": len(bank.source)}
    torch.manual_seed(seed)
    parser = Transformer(TransformerConfig(**sizes, **model))
    learned, pairs = bank.ids(bank.trees["train"]), bank.ids(bank.trees["validation"])
    held_out = [make_batch(pairs[i : i + 16]) for i in range(0, len(pairs), 16)]
    curve, lowest, chosen, best = [], math.inf, 0, copy.deepcopy(parser.state_dict())
    batches = epochs(learned, parser.config, settings)
    for step in tqdm(train(parser, adam(parser, settings), batches, settings), total=settings.num_steps, mininterval=5):
        if step.step_num % VALIDATE_EVERY == 0 or step.step_num == settings.num_steps:
            found = perplexity(parser, held_out)
            curve.append((step.step_num, round(found, 4)))
            if found < lowest:
                lowest, chosen, best = found, len(curve), copy.deepcopy(parser.state_dict())
            elif len(curve) - chosen == PATIENCE:
                break
    parser.load_state_dict(best)
    return parser.eval(), curve


def parsed(parser: Transformer, bank: Treebank, trees: Sequence[Tree], beam_size: int = BEAM_SIZE) -> list[str]:
    """The tokens that the parser writes for each sentence. Sentences of one length share a batch, and so a limit."""
    sources = [source for source, _ in bank.ids(trees)]
    order = sorted(range(len(trees)), key=lambda i: len(sources[i]))
    lines = [""] * len(trees)
    for length, group in itertools.groupby(tqdm(order, mininterval=5), key=lambda i: len(sources[i])):
        same = list(group)
        for rows in (same[i : i + 16] for i in range(0, len(same), 16)):
            ids = torch.tensor([[*sources[i], parser.config.eos_id] for i in rows])
            written = beam_search(parser, ids, beam_size, ALPHA, length + BEYOND_INPUT)
            for i, row in zip(rows, written.tolist(), strict=True):
                lines[i] = bank.target.decode(row)
    return lines


def scores(lines: Sequence[str], right: Sequence[Tree]) -> dict[str, Any]:
    """F1 of all brackets, and by evalb's rule, of trees that are mended where they are broken; how many were, how many
    have another number of words.

    The rule of evalb, by which Table 4's scores are counted, takes punctuation out and does not tell PRT from ADVP.
    """
    pairs = [mended_tree(line.split(), tree.words()) for line, tree in zip(lines, right, strict=True)]
    trees = [tree for tree, _ in pairs]
    by_rule = [
        (evalb_form(mine, hidden), evalb_form(tree, hidden))
        for mine, tree in zip(trees, right, strict=True)
        if len(hidden := punctuation(tree)) < len(tree.words())
    ]
    mine, theirs = [tree for tree, _ in by_rule], [tree for _, tree in by_rule if tree is not None]
    found = {"all_brackets": bracket_scores(trees, right), "evalb": bracket_scores(mine, theirs)}
    rounded = {rule: {name: round(value, 4) for name, value in s._asdict().items()} for rule, s in found.items()}
    miscounted = sum(line.split().count(WORD) != len(tree.words()) for line, tree in zip(lines, right, strict=True))
    return rounded | {
        "broken": sum(repairs > 0 for _, repairs in pairs),
        "miscounted": miscounted,
        "repairs": sum(r for _, r in pairs),
    }


def punctuation(tree: Tree) -> set[int]:
    """The places of the words that are punctuation by their part of speech."""
    labels = [label for label, _ in parts_of_speech(tree)]
    return {i for i, label in enumerate(labels) if label in PUNCTUATION}


def parts_of_speech(tree: Tree) -> Iterator[tuple[str, str]]:
    """The label of each word, and the word."""
    for part in tree.parts:
        if isinstance(part, str):
            yield tree.label, part
        else:
            yield from parts_of_speech(part)


def evalb_form(tree: Tree, hidden: set[int]) -> Tree | None:
    """The tree without the words at these places and what is empty then; PRT becomes ADVP."""
    places = itertools.count()

    def kept(part: Tree) -> Tree | None:
        if part.is_part_of_speech:
            return None if next(places) in hidden else part
        parts = tuple(p for p in (kept(p) for p in part.parts if isinstance(p, Tree)) if p is not None)
        return Tree("ADVP" if part.label == "PRT" else part.label, parts) if parts else None

    return kept(tree)


def extrapolated(trees: Sequence[int], f1: Sequence[float], to: int) -> dict[str, float]:
    """The F1 to expect of so many trees if the error goes on falling as a power of their number.

    1 − F1 = a · trees^−b, by least squares on logarithms. Nothing says that it goes on so.
    """
    x, y = [math.log(n) for n in trees], [math.log(1 - score) for score in f1]
    slope, level = statistics.linear_regression(x, y)
    return {"trees": to, "exponent": round(-slope, 4), "f1": round(1 - math.exp(level + slope * math.log(to)), 4)}


def by_length(lines: Sequence[str], right: Sequence[Tree]) -> list[dict[str, Any]]:
    """The scores of the sentences of so many words, in bands."""
    found = []
    for least, most in BANDS:
        chosen = [i for i, tree in enumerate(right) if least <= len(tree.words()) <= most]
        about = {"words": [least, most], "sentences": len(chosen)}
        found.append(about | scores([lines[i] for i in chosen], [right[i] for i in chosen]) if chosen else about)
    return found


def counted_right(lines: Sequence[str], right: Sequence[Tree]) -> dict[str, Any]:
    """The scores of those outputs that have as many words as their sentence, and how long these sentences are."""
    chosen = [i for i, tree in enumerate(right) if lines[i].split().count(WORD) == len(tree.words())]
    lengths = [len(right[i].words()) for i in chosen]
    about = {"sentences": len(chosen), "mean_words": round(statistics.fmean(lengths), 1) if chosen else None}
    return about | scores([lines[i] for i in chosen], [right[i] for i in chosen]) if chosen else about


def without_reading(bank: Treebank, trees: Sequence[Tree]) -> dict[str, list[str]]:
    """What two parsers without training write for each sentence, of which they see the number of words alone.

    One gives the tree that training shows most often for this number, or for the nearest one; the other lets each word
    open a verb phrase that holds the rest.
    """
    shown: dict[int, Counter[str]] = {}
    for tree in bank.trees["train"]:
        shown.setdefault(len(tree.words()), Counter())[" ".join(linearize(tree))] += 1
    lengths = [len(tree.words()) for tree in trees]
    nearest = [min(shown, key=lambda length: abs(length - wanted)) for wanted in lengths]
    return {
        "commonest": [shown[length].most_common(1)[0][0] for length in nearest],
        "nested": ["(S " + " (VP ".join([WORD] * n) + " )VP" * (n - 1) + " )S" for n in lengths],
    }


def one_run(share: int, seed: int, training: dict[str, Any], model: dict[str, Any] = MODEL) -> dict[str, Any]:
    """Train on a share of the trees and parse; the test trees only with a parser that saw all."""
    started, bank = time.monotonic(), treebank(share)
    parser, curve = trained(bank, model, training, seed)
    hypotheses = {"validation": parsed(parser, bank, bank.trees["validation"])}
    if share == 1:
        hypotheses["test"] = parsed(parser, bank, bank.trees["test"])
    return {
        "commit": COMMIT,
        "trees": len(bank.trees["train"]),
        "seed": seed,
        "parameters": count_parameters(parser),
        "words_known": len(bank.source),
        "validation_perplexity": curve,
        "seconds": round(time.monotonic() - started, 1),
        "hypotheses": hypotheses,
    }


def main() -> None:
    """Every size with every seed; the record is written when all are done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="a training of each size with each")
    parser.add_argument(
        "--shares", type=int, nargs="+", default=SHARES, help="1: all trees, 2: every second, and so on"
    )
    parser.add_argument("--steps", type=int, default=TRAINING["num_steps"], help="updates of each training")
    args = parser.parse_args()
    training = TRAINING | {"num_steps": args.steps}
    torch.set_num_threads(1)
    bank = treebank()
    right = bank.trees
    cases = itertools.product(args.seeds, args.shares)
    runs = kept_runs(PARTS, one_run, {f"{args.steps}-{share}-{seed}": (share, seed, training) for seed, share in cases})
    for run in runs:
        run["scores"] = {split: scores(lines, right[split]) for split, lines in run["hypotheses"].items()}
        run["by_length"] = by_length(run["hypotheses"]["validation"], right["validation"])
        if "test" in run["hypotheses"]:
            run["counted_right"] = counted_right(run["hypotheses"]["test"], right["test"])
        print(f"{run['trees']} trees, seed {run['seed']}: {run['scores']}")
    found = [(run["trees"], run["scores"]["validation"]["evalb"]["f1"]) for run in runs]
    sizes = sorted({size for size, _ in found})
    f1 = [statistics.fmean(score for its, score in found if its == size) for size in sizes]
    record = {
        "what": "constituency parsing of section 6.3 on the treebank sample, learned from shares of its trees",
        "data": "articles whose number ends in 5 for validation, in 0 for the test; the others to learn from",
        "model": MODEL,
        "training": training,
        "decoding": {"beam_size": BEAM_SIZE, "alpha": ALPHA, "max_length": f"input + {BEYOND_INPUT}"},
        "without_reading": {
            split: {name: scores(lines, right[split]) for name, lines in without_reading(bank, right[split]).items()}
            for split in HELD_OUT.values()
        },
        "extrapolated": extrapolated(sizes, f1, PAPER_SENTENCES) if len(sizes) > 1 else None,
        "runs": runs,
        **provenance(0, sum(run["seconds"] for run in runs)),
    }
    print(f"written to {write_result('parsing', record).name}")


if __name__ == "__main__":
    main()
