"""Training with and without warm-up, post-norm and pre-norm: number words, six layers, several highest rates.

    python experiments/warm_up.py

English to German. With warm-up the rate follows equation (3), scaled to the highest rate given. Without it, the rate
starts at the highest and stays there until the step at which warm-up would end; from there on both fall alike.
"""

import argparse
import math
import time
from typing import Any

import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, learning_rate
from transformer_lib.data import WordTokenizer, load_pairs, token_batches
from transformer_lib.evaluation import perplexity
from transformer_lib.training import adam, batch_loss, epochs
from workshop.lab.provenance import provenance, write_result

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


def one_run(ids: list[Any], val: list[Any], vocabulary: int, norm_order: Any, highest: float, warm_up: bool, seed: int):
    """Train, and return the curve of the loss and the validation loss without smoothing."""
    settings = TrainingConfig(**TRAINING, seed=seed)
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(vocabulary_size=vocabulary, norm_order=norm_order, **MODEL))
    optimizer = adam(model, settings)
    batches = epochs(ids, model.config, settings)
    losses = []
    for step_num in range(1, settings.num_steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = rate(step_num, highest, warm_up)
        batch = next(batches)
        optimizer.zero_grad()
        loss = batch_loss(model, batch, settings, pad_id=0) / batch.target_tokens
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    means = [sum(losses[i : i + EVERY]) / EVERY for i in range(0, len(losses), EVERY)]
    return {
        "norm_order": norm_order,
        "highest_rate": highest,
        "warm_up": warm_up,
        "seed": seed,
        "first_loss_nats_per_token": round(losses[0], 4),
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


def main() -> None:
    """Train all, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4, help="runs of each kind (default: 4)")
    args = parser.parse_args()
    started = time.monotonic()
    torch.set_num_threads(1)
    learned = load_pairs("number_words", "train", "en", "de")[:LEARNED]
    scored = load_pairs("number_words", "val", "en", "de")[:SCORED]
    tokenizer = WordTokenizer.train(text for pair in learned for text in pair)
    ids, val_ids = ([(tokenizer.encode(e), tokenizer.encode(g)) for e, g in some] for some in (learned, scored))
    val = list(token_batches(val_ids, 4000))
    runs = []
    for seed in range(args.seeds):
        for highest in HIGHEST:
            for norm_order in ("post", "pre"):
                for warm_up in (True, False):
                    run = one_run(ids, val, len(tokenizer), norm_order, highest, warm_up, seed)
                    runs.append(run)
                    print({k: v for k, v in run.items() if k != "losses_nats_per_token"}, flush=True)
    path = write_result(
        "warm_up",
        {
            "what": "training with and without warm-up, post-norm and pre-norm, at several highest learning rates",
            "data": f"English to German number words: the first {LEARNED:,} pairs of train, {SCORED} of val",
            "vocabulary": len(tokenizer),
            "model": MODEL,
            "training": TRAINING | {"warmup_steps": WARMUP_STEPS, "epsilon_ls": 0.1},
            "losses_are_means_over_steps": EVERY,
            "runs": runs,
            **provenance(0, time.monotonic() - started),
        },
    )
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
