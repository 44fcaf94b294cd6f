"""What residuals and normalisation do for stacks of growing depth, trained without warm-up.

    python experiments/depth.py

The model learns English to German number words below 1,000. A variant changes how each sub-layer joins the stack, and
nothing else; several seeds for each variant and depth.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib import Transformer, TransformerConfig
from transformer_lib.layers import AddAndNorm
from workshop.lab.experiment import each, record
from workshop.lab.small_model import learning_curve, numbers_below

MODEL: dict[str, Any] = {"d_model": 32, "d_ff": 64, "num_heads": 2, "d_k": 16, "d_v": 16, "p_drop": 0.0}
DEPTHS = [1, 4, 8]
STEPS, BATCH, LEARNING_RATE, LEARNED, SCORED = 150, 32, 2e-3, 800, 200


class Bare(AddAndNorm):
    """Only the sub-layer."""

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Its output, and nothing added."""
        return sublayer(states)


class NormAlone(AddAndNorm):
    """The paper's connection without the sum."""

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """The normalised output of the sub-layer."""
        return self.norm(sublayer(states))


class SumAlone(AddAndNorm):
    """The paper's connection without the normalisation."""

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """The sum of input and output."""
        return states + sublayer(states)


VARIANTS: dict[str, tuple[type[AddAndNorm], str]] = {
    "sub-layer alone": (Bare, "post"),
    "normalised, not added": (NormAlone, "post"),
    "added, not normalised": (SumAlone, "post"),
    "post-norm (the paper)": (AddAndNorm, "post"),
    "pre-norm": (AddAndNorm, "pre"),
}


def one_run(name: str, depth: int, seed: int) -> dict[str, Any]:
    """Train once; loss and right words on unseen numbers at the end."""
    words = numbers_below(LEARNED + SCORED, LEARNED, SCORED)
    torch.manual_seed(seed)
    kind, order = VARIANTS[name]
    sizes: dict[str, Any] = MODEL | {"num_layers": depth, "norm_order": order}
    model = Transformer(TransformerConfig(vocabulary_size=len(words.tokenizer), **sizes))
    for module in model.modules():
        if isinstance(module, AddAndNorm):
            module.__class__ = kind  # the same weights, another connection
    losses, right = learning_curve(model, words, [STEPS], BATCH, LEARNING_RATE)
    return {"seed": seed, "loss_nats_per_token": losses[-1], "right_words": right[-1]}


def measured(seeds: int) -> dict[str, Any]:
    """The record of every variant at every depth, with so many seeds each."""
    return {
        "what": "stacks of growing depth with and without residuals and normalisation, no warm-up; unseen numbers",
        "data": f"English to German number words below {LEARNED + SCORED:,}: {LEARNED} to learn, {SCORED} to score",
        "model": MODEL,
        "training": {"num_steps": STEPS, "sentences": BATCH, "adam_learning_rate": LEARNING_RATE, "warmup": "none"},
        "depths": DEPTHS,
        "variants": {
            name: {str(depth): each(one_run, [(name, depth, seed) for seed in range(seeds)]) for depth in DEPTHS}
            for name in VARIANTS
        },
    }


if __name__ == "__main__":
    record("depth", __doc__, measured, seeds=3)
