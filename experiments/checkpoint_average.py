"""How many of the last checkpoints are best averaged, on a small translator, with several seeds.

    python experiments/checkpoint_average.py

Each seed learns English to German number words while the learning rate is still rising, so that its weights wander.
The last twenty checkpoints are five updates apart. The mean of the last 1, 2, 3, 5, 10 and 20 is scored on numbers
that no run has seen.
"""

import tempfile
from pathlib import Path
from typing import Any

from transformer_lib import Transformer, average_checkpoints
from transformer_lib.data import token_batches
from transformer_lib.evaluation import bleu, exact_match, perplexity
from transformer_run.checkpoints import save_checkpoint
from transformer_run.translation import translate
from workshop.lab.experiment import each, record
from workshop.lab.small_model import SIZES, NumberWords, number_words, train_number_words

LEARNED, SCORED = 8000, 300
MODEL = SIZES | {"p_drop": 0.0}
TRAINING: dict[str, Any] = {"num_steps": 300, "batch_tokens": 500, "accumulate": 2, "warmup_steps": 600}
AVERAGED, EVERY = [1, 2, 3, 5, 10, 20], 5


def score(model: Transformer, words: NumberWords) -> dict[str, Any]:
    """Perplexity, exact match and BLEU of greedy decoding."""
    english, german = map(list, zip(*words.scored, strict=True))
    hypotheses = translate(model, english, words.tokenizer, words.tokenizer, 100)
    signed = bleu(hypotheses, german)
    return {
        "perplexity": round(perplexity(model, token_batches(words.ids(words.scored), 4000)), 4),
        "exact_match": round(exact_match(hypotheses, german), 4),
        "bleu": round(signed.score, 2),
        "bleu_signature": signed.signature,
    }


def one_run(words: NumberWords, seed: int) -> dict[str, Any]:
    """Train, then score the last checkpoints one by one and their means."""
    model, optimizer, records = train_number_words(words, MODEL, TRAINING, seed)
    first = TRAINING["num_steps"] - EVERY * max(AVERAGED)
    with tempfile.TemporaryDirectory() as folder:
        files, single = [], []
        for update in records:
            if update.step_num > first and update.step_num % EVERY == 0:
                files.append(Path(folder, f"step-{update.step_num}"))
                save_checkpoint(files[-1], model, optimizer, update.step_num)
                single.append({"step": update.step_num} | score(model, words))
        means = []
        for last in AVERAGED:
            model.load_state_dict(average_checkpoints(files[-last:]))
            means.append({"last": last} | score(model, words))
    return {"seed": seed, "single": single, "averaged": means}


def measured(seeds: int) -> dict[str, Any]:
    """The record of so many seeds."""
    words = number_words(LEARNED, SCORED)
    return {
        "what": "the mean of the last checkpoints against each of them, on number words",
        "data": f"number words, English to German: {LEARNED:,} pairs of train to learn, {SCORED} of val to score",
        "model": MODEL,
        "training": TRAINING,
        "sentences": SCORED,
        "every": EVERY,
        "runs": each(one_run, [(words, seed) for seed in range(seeds)]),
    }


if __name__ == "__main__":
    record("checkpoint_average", __doc__, measured, seeds=5)
