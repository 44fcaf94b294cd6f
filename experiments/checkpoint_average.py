"""How many of the last checkpoints are best averaged, on a small translator, with several seeds.

    python experiments/checkpoint_average.py

Each seed learns English to German number words while the learning rate is still rising, so that its weights wander.
The last twenty checkpoints are five updates apart. The mean of the last 1, 2, 3, 5, 10 and 20 is scored on numbers
that no run has seen.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, average_checkpoints
from transformer_lib.data import WordTokenizer, load_pairs, token_batches
from transformer_lib.decoding import translate
from transformer_lib.evaluation import bleu, exact_match, perplexity
from transformer_lib.run.checkpoints import save_checkpoint
from transformer_lib.training import adam, epochs, train
from workshop.lab.provenance import provenance, write_result

SEEDS, LEARNED, SCORED = 5, 8000, 300
MODEL: dict[str, Any] = {
    "num_layers": 2, "d_model": 64, "d_ff": 256, "num_heads": 4, "d_k": 16, "d_v": 16, "p_drop": 0.0
}  # fmt: skip
TRAINING: dict[str, Any] = {"num_steps": 300, "batch_tokens": 500, "accumulate": 2, "warmup_steps": 600}
AVERAGED, EVERY = [1, 2, 3, 5, 10, 20], 5
PAIRS = load_pairs("number_words", "train", "en", "de")[:LEARNED]
SENTENCES = load_pairs("number_words", "val", "en", "de")[:SCORED]
TOKENIZER = WordTokenizer.train([side for pair in PAIRS for side in pair])


def encode(pairs: list[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
    """Pairs of texts as pairs of ids."""
    return [(TOKENIZER.encode(source), TOKENIZER.encode(target)) for source, target in pairs]


def score(model: Transformer) -> dict[str, Any]:
    """Perplexity, exact match and BLEU of greedy decoding."""
    english, german = map(list, zip(*SENTENCES, strict=True))
    found = dict(translate(model, english, TOKENIZER, TOKENIZER, 100))
    answers = [found[i] for i in range(len(german))]
    signed = bleu(answers, german)
    return {
        "perplexity": round(perplexity(model, token_batches(encode(SENTENCES), 4000)), 4),
        "exact_match": round(exact_match(answers, german), 4),
        "bleu": round(signed.score, 2),
        "bleu_signature": signed.signature,
    }


def one_run(seed: int) -> dict[str, Any]:
    """Train, then score the last checkpoints one by one and their means."""
    settings = TrainingConfig(**TRAINING, seed=seed)
    encoded = encode(PAIRS)
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(vocabulary_size=len(TOKENIZER), **MODEL))
    optimizer = adam(model, settings)
    first = settings.num_steps - EVERY * max(AVERAGED)
    with tempfile.TemporaryDirectory() as folder:
        files, single = [], []
        for record in train(model, optimizer, epochs(encoded, model.config, settings), settings):
            if record.step_num > first and record.step_num % EVERY == 0:
                files.append(Path(folder, f"step-{record.step_num}"))
                save_checkpoint(files[-1], model, optimizer, record.step_num)
                single.append({"step": record.step_num} | score(model))
        means = []
        for last in AVERAGED:
            model.load_state_dict(average_checkpoints(files[-last:]))
            means.append({"last": last} | score(model))
    return {"seed": seed, "single": single, "averaged": means}


def main() -> None:
    """Run all seeds, write the result."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    started = time.monotonic()
    runs = []
    for seed in range(SEEDS):
        runs.append(one_run(seed))
        print(f"seed {seed}, {time.monotonic() - started:.0f} s", *runs[-1]["averaged"], sep="\n    ", flush=True)
    path = write_result(
        "checkpoint_average",
        {
            "what": "the mean of the last checkpoints against each of them, on number words",
            "data": f"number words, English to German: {LEARNED:,} pairs of train to learn, {SCORED} of val to score",
            "model": MODEL,
            "training": TRAINING,
            "sentences": SCORED,
            "every": EVERY,
            "runs": runs,
            **provenance(0, time.monotonic() - started),
        },
    )
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
