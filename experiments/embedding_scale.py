"""What the scale of the embedding, and the sharing of its matrix, do to a small model in its first 200 updates.

    python experiments/embedding_scale.py

The model learns English to German number words below 1,000. Each variant changes the deviation of the first weights,
the factor on the way in, the size of the vocabulary (entries that no sentence uses) or the sharing; several seeds each.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import nn

from transformer_lib import Transformer, TransformerConfig, count_parameters
from workshop.lab.experiment import each, record
from workshop.lab.small_model import learning_curve, numbers_below

D_MODEL = 64
MODEL: dict[str, Any] = {"num_layers": 2, "d_model": D_MODEL, "d_ff": 128, "num_heads": 4, "d_k": 16, "d_v": 16}
BATCH, LEARNING_RATE, LEARNED, SCORED = 64, 2e-3, 800, 200
MEASURED = [0, 25, 50, 100, 200]
ROOT_OF_D = math.sqrt(D_MODEL)


class Variant(NamedTuple):
    """The deviation of the first weights (None: Glorot's), the factor on the way in, and what differs in the config."""

    name: str
    deviation: float | None = 1 / ROOT_OF_D
    factor: float = ROOT_OF_D
    unused: int = 0
    config: dict[str, Any] = {}  # noqa: RUF012


VARIANTS = [
    Variant("as it is"),
    Variant("no factor", factor=1.0),
    Variant("deviation 1, no factor", deviation=1.0, factor=1.0),
    Variant("deviation 1, with the factor", deviation=1.0),
    Variant("as it is, 4,000 unused entries", unused=4_000),
    Variant("Glorot, 4,000 unused entries", deviation=None, unused=4_000),
    Variant("own output matrix", config={"tied_output": False}),
    Variant("three matrices", config={"tied_output": False, "source_vocabulary_size": 0}),
]


def build(variant: Variant, vocabulary: int) -> Transformer:
    """The model of this variant, with its first weights."""
    size = vocabulary + variant.unused
    changes = {key: value or size for key, value in variant.config.items() if key == "source_vocabulary_size"}
    model = Transformer(TransformerConfig(vocabulary_size=size, p_drop=0.0, **{**MODEL, **variant.config, **changes}))
    tables = [model.embedding, model.own_source_embedding, model.own_output_embedding]
    for table in (table for table in tables if table is not None):
        if variant.deviation is None:
            nn.init.xavier_uniform_(table.weight)
        else:
            nn.init.normal_(table.weight, std=variant.deviation)
        table.register_forward_hook(lambda _module, _inputs, output: output * (variant.factor / ROOT_OF_D))
    return model


def one_run(variant: Variant, seed: int) -> dict[str, Any]:
    """Train once; losses and right words on unseen numbers at the measured steps."""
    words = numbers_below(LEARNED + SCORED, LEARNED, SCORED)
    torch.manual_seed(seed)
    model = build(variant, len(words.tokenizer))
    losses, right = learning_curve(model, words, MEASURED, BATCH, LEARNING_RATE)
    return {"seed": seed, "loss_nats_per_token": losses, "right_words": right, "parameters": count_parameters(model)}


def measured(seeds: int) -> dict[str, Any]:
    """The record of every variant, with so many seeds each."""
    return {
        "what": "a small model with other first embeddings, another factor, other sharing; unseen numbers",
        "data": f"English to German number words below {LEARNED + SCORED:,}: {LEARNED} to learn, {SCORED} to score",
        "model": MODEL | {"p_drop": 0.0},
        "training": {"num_steps": MEASURED[-1], "sentences": BATCH, "adam_learning_rate": LEARNING_RATE},
        "measured_at": MEASURED,
        "variants": {v.name: each(one_run, [(v, seed) for seed in range(seeds)]) for v in VARIANTS},
    }


if __name__ == "__main__":
    record("embedding_scale", __doc__, measured, seeds=5)
