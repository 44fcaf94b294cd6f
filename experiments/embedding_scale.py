"""What the scale of the embedding, and the sharing of its matrix, do to a small model in its first 200 updates.

    python experiments/embedding_scale.py

The model learns English to German number words below 1,000. Each variant changes the deviation of the first weights,
the factor on the way in, the size of the vocabulary (entries that no sentence uses) or the sharing; several seeds each.
"""

import argparse
import math
import random
import time
from typing import Any, NamedTuple

import torch
from torch import nn

from transformer_lib import Transformer, TransformerConfig, count_parameters, label_smoothing_loss
from transformer_lib.data import WordTokenizer, english_number, german_number, make_batch
from workshop.lab.provenance import provenance, write_result

D_MODEL = 64
MODEL: dict[str, Any] = {"num_layers": 2, "d_model": D_MODEL, "d_ff": 128, "num_heads": 4, "d_k": 16, "d_v": 16}
STEPS, BATCH, LEARNING_RATE, HELD_OUT, LIMIT = 200, 64, 2e-3, 200, 1000
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
    numbers = random.Random(0).sample(range(LIMIT), LIMIT)
    pairs = [(english_number(n), german_number(n)) for n in numbers]
    tokenizer = WordTokenizer.train(side for pair in pairs for side in pair)
    ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    learned, held_out = ids[HELD_OUT:], make_batch(ids[:HELD_OUT])
    torch.manual_seed(seed)
    model = build(variant, len(tokenizer))
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9)
    losses, right = [], []
    for step in range(STEPS + 1):
        if step in MEASURED:
            with torch.no_grad():
                logits = model(held_out.source, held_out.target_input)
            real = held_out.target_output != 0
            losses.append(round(label_smoothing_loss(logits, held_out.target_output, epsilon_ls=0.0).item(), 4))
            right.append(round((logits.argmax(-1) == held_out.target_output)[real].float().mean().item(), 4))
        batch = make_batch([learned[i] for i in torch.randint(len(learned), (BATCH,))])
        loss = label_smoothing_loss(model(batch.source, batch.target_input), batch.target_output, epsilon_ls=0.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {"seed": seed, "loss_nats_per_token": losses, "right_words": right, "parameters": count_parameters(model)}


def main() -> None:
    """Run every variant with every seed, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="runs of each variant (default: 5)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    started = time.monotonic()
    found: dict[str, list[dict[str, Any]]] = {}
    for variant in VARIANTS:
        for seed in range(args.seeds):
            run = one_run(variant, seed)
            found.setdefault(variant.name, []).append(run)
            print(f"{time.monotonic() - started:5.0f} s  {variant.name}, seed {seed}: {run}", flush=True)
    path = write_result(
        "embedding_scale",
        {
            "what": "a small model with other first embeddings, another factor, other sharing; unseen numbers",
            "data": f"English to German number words below {LIMIT:,}: {LIMIT - HELD_OUT} to learn, {HELD_OUT} to score",
            "model": MODEL | {"p_drop": 0.0},
            "training": {"num_steps": STEPS, "sentences": BATCH, "adam_learning_rate": LEARNING_RATE},
            "measured_at": MEASURED,
            "variants": found,
            **provenance(0, time.monotonic() - started),
        },
    )
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
