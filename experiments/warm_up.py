"""Training with and without warm-up, post-norm and pre-norm: number words, six layers, several highest rates.

    python experiments/warm_up.py

English to German. With warm-up the rate follows equation (3), scaled to the highest rate given. Without it, the rate
starts at the highest and stays there until the step at which warm-up would end; from there on both fall alike.
"""

import math
from typing import Any

import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, learning_rate
from transformer_lib.data import token_batches
from transformer_lib.evaluation import perplexity
from transformer_lib.training import adam, batch_loss, epochs
from workshop.lab.experiment import each, record
from workshop.lab.small_model import NumberWords, number_words

HIGHEST = [0.001, 0.002, 0.004]
WARMUP_STEPS = 100
LEARNED = 4000  # pairs
SCORED = 300
MODEL: dict[str, Any] = {
    "num_layers": 6, "d_model": 32, "d_ff": 128, "num_heads": 4, "d_k": 8, "d_v": 8, "p_drop": 0.0,
}  # fmt: skip
TRAINING: dict[str, Any] = {"num_steps": 200, "batch_tokens": 400}
EVERY = 5  # steps between the losses that are written down, each a mean over so many


def rate(step_num: int, highest: float, warm_up: bool) -> float:
    """Equation (3), scaled so that its peak is `highest`; without warm-up, flat until the peak."""
    step_num = step_num if warm_up else max(step_num, WARMUP_STEPS)
    d_model = MODEL["d_model"]
    return highest * learning_rate(step_num, d_model, WARMUP_STEPS) / learning_rate(WARMUP_STEPS, d_model, WARMUP_STEPS)


def one_run(words: NumberWords, norm_order: Any, highest: float, warm_up: bool, seed: int) -> dict[str, Any]:
    """Train, and return the curve of the loss and the validation loss without smoothing."""
    settings = TrainingConfig(**TRAINING, seed=seed)
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(vocabulary_size=len(words.tokenizer), norm_order=norm_order, **MODEL))
    optimizer = adam(model, settings)
    batches = epochs(words.ids(words.learned), model.config, settings)
    losses = []
    for step_num in range(1, settings.num_steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = rate(step_num, highest, warm_up)
        batch = next(batches)
        optimizer.zero_grad()
        loss = batch_loss(model, batch, settings.epsilon_ls) / batch.target_tokens
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    val = list(token_batches(words.ids(words.scored), 4000))
    means = [sum(losses[i : i + EVERY]) / EVERY for i in range(0, len(losses), EVERY)]
    return {
        "norm_order": norm_order,
        "highest_rate": highest,
        "warm_up": warm_up,
        "seed": seed,
        "losses_nats_per_token": [round(loss, 3) for loss in means],
        "val_loss_nats_per_token": round(math.log(perplexity(model, val)), 4),
        "source_matters": round(source_matters(model, val), 5),
    }


@torch.no_grad()
def source_matters(model: Transformer, batches: list[Any]) -> float:
    """How far a prediction moves if the source is exchanged for another sentence: total variation distance, 0 to 1."""
    model.eval()
    distances = []
    for batch in batches:
        real = batch.target_output != 0
        own, other = (
            model(source, batch.target_input).softmax(dim=-1) for source in (batch.source, batch.source.roll(1, 0))
        )
        distances.append(0.5 * (own - other).abs().sum(dim=-1)[real])
    return torch.cat(distances).mean().item()


def measured(seeds: int) -> dict[str, Any]:
    """The record of every kind of training, with so many seeds each."""
    words = number_words(LEARNED, SCORED)
    kinds = [(order, highest, warm_up) for highest in HIGHEST for order in ("post", "pre") for warm_up in (True, False)]
    return {
        "what": "training with and without warm-up, post-norm and pre-norm, at several highest learning rates",
        "data": f"English to German number words: the first {LEARNED:,} pairs of train, {SCORED} of val",
        "vocabulary": len(words.tokenizer),
        "model": MODEL,
        "training": TRAINING | {"warmup_steps": WARMUP_STEPS, "epsilon_ls": 0.1},
        "losses_are_means_over_steps": EVERY,
        "runs": each(one_run, [(words, *kind, seed) for seed in range(seeds) for kind in kinds]),
    }


if __name__ == "__main__":
    record("warm_up", __doc__, measured, seeds=4)
