"""Two systems of one trained model: are a beam and averaged weights better than neither, or was it luck?

    TRANSFORMER_LIB_DATA=... python experiments/compare_systems.py

The translations are those that multi30k.py recorded: "greedy" decodes the last checkpoint greedily, "beam" decodes the
mean of the last ten with the beam chosen on the validation set. For each run and test set: BLEU, chrF, the length of
the translations by that of the references, the paired bootstrap of sacreBLEU, and both scores on draws of sentences
with repetition.
"""

from typing import Any, NamedTuple

import torch
from sacrebleu.significance import PairedTest

from experiments.head_ablation import Scorer
from transformer_lib.data import load_pairs
from transformer_lib.evaluation import bleu, chrf, import_sacrebleu
from workshop.lab.experiment import record, recorded
from workshop.lab.provenance import RESULTS

RECORDED = "multi30k_recipe"
DRAWS, SHOWN = 1000, 400  # draws of the test, draws that the book shows
SYSTEMS = ("greedy", "beam")


class Comparison(NamedTuple):
    """Two systems on the same sentences."""

    difference: float  # BLEU of the second less BLEU of the first
    p_value: float  # how often chance alone would bring a difference as large, if the systems were equal


def paired_bootstrap(first: list[str], second: list[str], references: list[str], draws: int = DRAWS) -> Comparison:
    """BLEU of two systems on the same draws of sentences with repetition, by sacreBLEU, with its fixed seed."""
    metrics = {"BLEU": import_sacrebleu().BLEU()}
    systems: Any = [("first", first), ("second", second)]
    test: Any = PairedTest(systems, metrics, [references], test_type="bs", n_samples=draws)
    one, other = test()[1]["BLEU"]
    difference = other.score - one.score
    return Comparison(difference, other.p_value if difference else 1.0)  # sacreBLEU counts larger ones alone


def compare(direction: str, seed: int, split: str) -> dict[str, Any]:
    """Greedy decoding and the chosen beam of one run, on one test set."""
    source, target = direction.split("-")
    references = [text for _, text in load_pairs("multi30k", split, source, target)]
    files = [RESULTS / RECORDED / f"{direction}.seed{seed}.{split}.{how}.txt" for how in SYSTEMS]
    said = [path.read_text("utf-8").removesuffix("\n").split("\n") for path in files]
    generator = torch.Generator().manual_seed(0)
    draws = torch.randint(len(references), (SHOWN, len(references)), generator=generator).numpy()
    scorer = Scorer(references, seed=0)
    drawn = [[scorer.bleu(row) for row in scorer.counts(lines)[draws].sum(axis=1)] for lines in said]
    greedy, beam = said
    comparison = paired_bootstrap(greedy, beam, references)
    return {
        "direction": direction,
        "seed": seed,
        "split": split,
        "bleu": [round(bleu(lines, references).score, 2) for lines in said],
        "chrf": [round(chrf(lines, references).score, 2) for lines in said],
        "signatures": [bleu(said[0], references).signature, chrf(said[0], references).signature],
        "length_ratio": [round(bleu(lines, references).length_ratio, 4) for lines in said],
        "difference": round(comparison.difference, 2),
        "p_value": round(comparison.p_value, 4),
        "drawn": [[round(value, 2) for value in values] for values in drawn],
    }


def measured() -> dict[str, Any]:
    """The systems of all recorded runs, compared."""
    runs = recorded(RECORDED)["runs"]
    return {
        "what": "greedy decoding of the last weights, and a beam on averaged ones, on the same sentences",
        "systems": SYSTEMS,
        "draws": DRAWS,
        "comparisons": [compare(run["direction"], run["seed"], split) for run in runs for split in run["test"]],
    }


if __name__ == "__main__":
    record("compare_systems", __doc__, measured)
