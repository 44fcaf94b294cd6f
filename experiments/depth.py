"""What residuals and normalisation do for stacks of growing depth, trained without warm-up.

    python experiments/depth.py

The model learns English to German number words below 1,000. A variant changes how each sub-layer joins the stack, and
nothing else; several seeds for each variant and depth.
"""

import argparse
import random
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib import Transformer, TransformerConfig, label_smoothing_loss
from transformer_lib.data import WordTokenizer, english_number, german_number, make_batch
from transformer_lib.layers import AddAndNorm
from workshop.lab.provenance import provenance, write_result

MODEL: dict[str, Any] = {"d_model": 32, "d_ff": 64, "num_heads": 2, "d_k": 16, "d_v": 16, "p_drop": 0.0}
DEPTHS = [1, 4, 8]
STEPS, BATCH, LEARNING_RATE, HELD_OUT, LIMIT = 150, 32, 2e-3, 200, 1000


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
    numbers = random.Random(0).sample(range(LIMIT), LIMIT)
    pairs = [(english_number(n), german_number(n)) for n in numbers]
    tokenizer = WordTokenizer.train(side for pair in pairs for side in pair)
    ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    learned, held_out = ids[HELD_OUT:], make_batch(ids[:HELD_OUT])
    torch.manual_seed(seed)
    kind, order = VARIANTS[name]
    model = Transformer(
        TransformerConfig(vocabulary_size=len(tokenizer), num_layers=depth, norm_order=order, **MODEL)  # type: ignore[arg-type]
    )
    for module in model.modules():
        if isinstance(module, AddAndNorm):
            module.__class__ = kind  # the same weights, another connection
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9)
    for _ in range(STEPS):
        batch = make_batch([learned[i] for i in torch.randint(len(learned), (BATCH,))])
        loss = label_smoothing_loss(model(batch.source, batch.target_input), batch.target_output, epsilon_ls=0.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        logits = model(held_out.source, held_out.target_input)
    real = held_out.target_output != 0
    right = (logits.argmax(-1) == held_out.target_output)[real].float().mean().item()
    final = label_smoothing_loss(logits, held_out.target_output, epsilon_ls=0.0).item()
    return {"seed": seed, "loss_nats_per_token": round(final, 4), "right_words": round(right, 4)}


def main() -> None:
    """Run every variant at every depth, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="runs of each variant and depth (default: 3)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    started = time.monotonic()
    found: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in VARIANTS}
    for depth in DEPTHS:
        for name in VARIANTS:
            found[name][str(depth)] = [one_run(name, depth, seed) for seed in range(args.seeds)]
            print(f"{time.monotonic() - started:5.0f} s  {depth} layers, {name}: {found[name][str(depth)]}", flush=True)
    path = write_result(
        "depth",
        {
            "what": "stacks of growing depth with and without residuals and normalisation, no warm-up; unseen numbers",
            "data": f"English to German number words below {LIMIT:,}: {LIMIT - HELD_OUT} to learn, {HELD_OUT} to score",
            "model": MODEL,
            "training": {"num_steps": STEPS, "sentences": BATCH, "adam_learning_rate": LEARNING_RATE, "warmup": "none"},
            "depths": DEPTHS,
            "variants": found,
            **provenance(0, time.monotonic() - started),
        },
    )
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
