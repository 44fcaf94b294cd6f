"""What do long sentences lose? BLEU, brevity penalty and length by the length of the source.

    TRANSFORMER_LIB_DATA=... python experiments/sentence_length.py

Of the translations of Multi30k that multi30k.py recorded, decoded with the beam chosen on the validation set. A source
is as long as its words in BLEU's tokenization 13a. Not by the length of the reference: a short reference is often one
that says less than its source, and beside it any translation looks too long.
"""

import itertools
from collections.abc import Callable
from typing import Any

from transformer_lib.data import load_pairs
from transformer_lib.evaluation import bleu, import_sacrebleu
from workshop.lab.experiment import record, recorded
from workshop.lab.provenance import RESULTS

RECORDED = "multi30k_recipe"
LENGTHS = (1, 10, 15, 20, 1000)  # from each to the next


def parts(hypotheses: list[str], references: list[str]) -> dict[str, Any]:
    """The score of some sentences, its brevity penalty, and how long they are beside their references."""
    score = bleu(hypotheses, references)
    rounded = {"bleu": round(score.score, 2), "brevity_penalty": round(score.brevity_penalty, 4)}
    return {"sentences": len(references), **rounded, "length_ratio": round(score.length_ratio, 4)}


def by_length(
    sources: list[str],
    hypotheses: list[str],
    references: list[str],
    bounds: tuple[int, ...] = LENGTHS,
    words: Callable[[str], list[str]] | None = None,
) -> list[dict[str, Any]]:
    """The same of short sources and of long ones, by their words, which are those of 13a unless others are given."""
    tokenizer = import_sacrebleu().BLEU().tokenizer  # 13a
    words = words or (lambda text: tokenizer(text).split())
    lengths = [len(words(source)) for source in sources]
    found = []
    for low, high in itertools.pairwise(bounds):
        chosen = [i for i, length in enumerate(lengths) if low <= length < high]
        about = {"words": [low, high - 1], "mean_words": round(sum(lengths[i] for i in chosen) / len(chosen), 2)}
        found.append(about | parts([hypotheses[i] for i in chosen], [references[i] for i in chosen]))
    return found


def of_recorded(direction: str, seed: int, split: str, decoding: str) -> dict[str, Any]:
    """Of the recorded translations of one run of multi30k.py."""
    sources, references = map(list, zip(*load_pairs("multi30k", split, *direction.split("-")), strict=True))
    path = RESULTS / RECORDED / f"{direction}.seed{seed}.{split}.beam.txt"
    hypotheses = path.read_text("utf-8").removesuffix("\n").split("\n")
    about = {"direction": direction, "seed": seed, "split": split, "decoding": decoding}
    bands = by_length(sources, hypotheses, references)
    return {**about, **parts(hypotheses, references), "by_source_length": bands}


def measured() -> dict[str, Any]:
    """All recorded runs on both of their test sets."""
    runs = recorded(RECORDED)["runs"]
    return {
        "what": "BLEU, brevity penalty and length of translations by the length of their sources",
        "signature": bleu(["a"], ["a"]).signature,
        "runs": [
            of_recorded(run["direction"], run["seed"], split, run["chosen"]) for run in runs for split in run["test"]
        ],
    }


if __name__ == "__main__":
    record("sentence_length", __doc__, measured)
