"""Do long sentences come out too short? BLEU, brevity penalty and length by the length of the reference.

    TRANSFORMER_LIB_DATA=... python experiments/sentence_length.py

Of the translations of Multi30k that multi30k.py recorded, decoded with the beam chosen on the validation set; and of
the translators that come with the package, which translate the test part of Tatoeba here, with the beam that
their records name. A reference is as long as its words in BLEU's tokenization 13a.

And how probable these translators find an end when they read the words of the reference instead of their own.
"""

import itertools
import json
from typing import Any

import torch

from experiments.tatoeba import BEAM
from transformer_lib.data import load_pairs
from transformer_lib.data.batches import token_batches
from transformer_lib.evaluation import bleu, import_sacrebleu
from transformer_lib.transformer import evaluation_mode
from transformer_run.translator import Translator
from workshop.lab.experiment import record
from workshop.lab.provenance import RESULTS

RECORDED = "multi30k_recipe"
BATCH_TOKENS = 2000  # of the probabilities
LENGTHS = {"multi30k": (1, 10, 15, 20, 1000), "tatoeba": (1, 6, 10, 15, 1000)}  # from each to the next


def parts(hypotheses: list[str], references: list[str]) -> dict[str, Any]:
    """The score of some sentences, its brevity penalty, and how long they are beside their references."""
    score = bleu(hypotheses, references)
    rounded = {"bleu": round(score.score, 2), "brevity_penalty": round(score.brevity_penalty, 4)}
    return {"sentences": len(references), **rounded, "length_ratio": round(score.length_ratio, 4)}


def by_length(hypotheses: list[str], references: list[str], bounds: tuple[int, ...]) -> list[dict[str, Any]]:
    """The same of short references and of long ones."""
    words = import_sacrebleu().BLEU().tokenizer  # 13a
    lengths = [len(words(reference).split()) for reference in references]
    found = []
    for low, high in itertools.pairwise(bounds):
        chosen = [i for i, length in enumerate(lengths) if low <= length < high]
        about = {"words": [low, high - 1], "mean_words": round(sum(lengths[i] for i in chosen) / len(chosen), 2)}
        found.append(about | parts([hypotheses[i] for i in chosen], [references[i] for i in chosen]))
    return found


def of_recorded(direction: str, seed: int, split: str, decoding: str) -> dict[str, Any]:
    """Of the recorded translations of one run of multi30k.py."""
    references = [target for _, target in load_pairs("multi30k", split, *direction.split("-"))]
    path = RESULTS / RECORDED / f"{direction}.seed{seed}.{split}.beam.txt"
    hypotheses = path.read_text("utf-8").removesuffix("\n").split("\n")
    bands = by_length(hypotheses, references, LENGTHS["multi30k"])
    about = {"direction": direction, "seed": seed, "split": split, "decoding": decoding}
    return {**about, **parts(hypotheses, references), "by_reference_length": bands}


@torch.inference_mode()
def end_probabilities(translator: Translator, pairs: list[tuple[str, str]]) -> dict[str, float]:
    """P(<eos>) given the words of the reference: summed over the places before its end, and at its end.

    Means over the sentences. Of a model whose probabilities are right the two add up to 1.
    """
    eos_id, before, at_end = translator.model.config.eos_id, 0.0, 0.0
    with evaluation_mode(translator.model):
        for batch in token_batches(translator.encode(pairs), BATCH_TOKENS):
            logits = translator.model(batch.source, batch.target_input)
            ends = logits.softmax(dim=-1)[:, :, eos_id]  # (sentences, places)
            last = batch.target_output == eos_id
            at_end += ends[last].sum().item()
            before += ends[(last.cumsum(dim=1) == 0)].sum().item()
    return {"before_the_end": round(before / len(pairs), 4), "at_the_end": round(at_end / len(pairs), 4)}


def of_shipped(direction: str) -> dict[str, Any]:
    """Of a translator that comes with the package."""
    name = f"tatoeba_{direction.replace('-', '_')}"
    alpha = json.loads((RESULTS / f"{name}.json").read_text("utf-8")).get("alpha", 0.6)
    pairs = load_pairs("tatoeba", "test", *direction.split("-"))
    translator = Translator.load(name)
    scores = translator.score(pairs, BEAM, alpha)
    references = [target for _, target in pairs]
    bands = by_length(scores.hypotheses, references, LENGTHS["tatoeba"])
    about = {"name": name, "direction": direction, "split": "test", "decoding": f"beam {BEAM}, alpha {alpha}"}
    ends = {"end_probability": end_probabilities(translator, pairs)}
    return {**about, **parts(scores.hypotheses, references), **ends, "by_reference_length": bands}


def measured() -> dict[str, Any]:
    """All recorded runs on both of their test sets, and both translators of the package."""
    runs = json.loads((RESULTS / f"{RECORDED}.json").read_text("utf-8"))["runs"]
    return {
        "what": "BLEU, brevity penalty and length of translations by the length of their references",
        "signature": bleu(["a"], ["a"]).signature,
        "multi30k": [
            of_recorded(run["direction"], run["seed"], split, run["chosen"]) for run in runs for split in run["test"]
        ],
        "tatoeba": [of_shipped(direction) for direction in ("de-en", "en-de")],
    }


if __name__ == "__main__":
    record("sentence_length", __doc__, measured)
