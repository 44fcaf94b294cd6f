"""What label smoothing does to perplexity, accuracy and confidence: number words learned from few examples.

    python experiments/label_smoothing.py

English to German, 300 pairs to learn from, the 1,000 pairs of the test split to score; several amounts of smoothing,
each with the same seeds. With thousands of pairs the small model is right almost everywhere, and nothing differs.
"""

import math
import tempfile
from pathlib import Path
from typing import Any

import torch

from transformer_lib import Transformer, average_checkpoints
from transformer_lib.data import token_batches
from transformer_run.checkpoints import save_checkpoint
from workshop.lab.experiment import each, record
from workshop.lab.small_model import SIZES, NumberWords, number_words, train_number_words

EPSILONS = [0.0, 0.1, 0.2, 0.3]
LEARNED = 300  # pairs
MODEL = SIZES | {"p_drop": 0.0}
TRAINING: dict[str, Any] = {"num_steps": 300, "batch_tokens": 1000, "warmup_steps": 900}
AVERAGED = [260, 270, 280, 290, 300]  # the steps whose weights are averaged, so that no single step decides
BINS = 20  # of the histogram of the right token's probability


@torch.no_grad()
def score(model: Transformer, batches: list[Any]) -> dict[str, Any]:
    """Measures of the next-token predictions at every real target token, given the right words before it."""
    model.eval()
    probabilities, confidences, hits, sentences = [], [], [], []
    for batch in batches:
        real = batch.target_output != 0
        distribution = model(batch.source, batch.target_input).double().softmax(dim=-1)
        confidence, likeliest = distribution.max(dim=-1)
        hit = likeliest == batch.target_output
        right = distribution.gather(-1, batch.target_output[..., None])[..., 0]
        probabilities.append(right[real])
        confidences.append(confidence[real])
        hits.append(hit[real])
        sentences.append((hit | ~real).all(dim=1))
    right, confidence, hit = torch.cat(probabilities), torch.cat(confidences), torch.cat(hits)
    histogram = torch.histc(right, bins=BINS, min=0.0, max=1.0)
    return {
        "perplexity": round(math.exp(-right.log().mean().item()), 4),
        "token_accuracy": round(hit.double().mean().item(), 5),
        "sentence_accuracy": round(torch.cat(sentences).double().mean().item(), 5),
        "mean_confidence": round(confidence.mean().item(), 5),
        "histogram": [int(count) for count in histogram],
    }


def one_run(words: NumberWords, epsilon_ls: float, seed: int) -> dict[str, Any]:
    """Train with so much smoothing, and score the mean of the last weights."""
    model, optimizer, records = train_number_words(words, MODEL, TRAINING | {"epsilon_ls": epsilon_ls}, seed)
    with tempfile.TemporaryDirectory() as folder:
        files = {step: Path(folder, f"step-{step}") for step in AVERAGED}
        for update in records:
            if update.step_num in files:
                save_checkpoint(files[update.step_num], model, optimizer, update.step_num)
        model.load_state_dict(average_checkpoints([*files.values()]))
    scored = list(token_batches(words.ids(words.scored), 4000))
    return {"epsilon_ls": epsilon_ls, "seed": seed, **score(model, scored)}


def measured(seeds: int) -> dict[str, Any]:
    """The record of every amount of smoothing, with so many seeds each."""
    words = number_words(split="test")
    words = words._replace(learned=words.learned[:LEARNED])  # the tokenizer knows the words of all
    return {
        "what": "perplexity, accuracy and confidence on unseen numbers after training with label smoothing",
        "data": f"English to German number words: the first {LEARNED} pairs of train, {len(words.scored):,} of test",
        "vocabulary": len(words.tokenizer),
        "model": MODEL,
        "training": TRAINING | {"averaged": AVERAGED},
        "runs": each(one_run, [(words, epsilon_ls, seed) for seed in range(seeds) for epsilon_ls in EPSILONS]),
    }


if __name__ == "__main__":
    record("label_smoothing", __doc__, measured, seeds=6)
