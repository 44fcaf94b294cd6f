"""What label smoothing does to perplexity, accuracy and confidence: number words learned from few examples.

    python experiments/label_smoothing.py

English to German, 300 pairs to learn from, the 1,000 pairs of the test split to score; several amounts of smoothing,
each with the same seeds. With thousands of pairs the small model is right almost everywhere, and nothing differs.
"""

import argparse
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, average_checkpoints
from transformer_lib.data import WordTokenizer, load_pairs, token_batches
from transformer_lib.run.checkpoints import save_checkpoint
from transformer_lib.training import adam, epochs, train
from workshop.lab.provenance import provenance, write_result

EPSILONS = [0.0, 0.1, 0.2, 0.3]
LEARNED = 300  # pairs
MODEL: dict[str, Any] = {
    "num_layers": 2, "d_model": 64, "d_ff": 256, "num_heads": 4, "d_k": 16, "d_v": 16, "p_drop": 0.0,
}  # fmt: skip
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
        "confidence_where_wrong": round(confidence[~hit].mean().item(), 5),
        "histogram": [int(count) for count in histogram],
    }


def main() -> None:
    """Train, score, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6, help="runs of each amount of smoothing (default: 6)")
    args = parser.parse_args()
    started = time.monotonic()
    torch.set_num_threads(1)
    learned = load_pairs("number_words", "train", "en", "de")
    tokenizer = WordTokenizer.train(text for pair in learned for text in pair)
    ids, test_ids = (
        [(tokenizer.encode(english), tokenizer.encode(german)) for english, german in some]
        for some in (learned[:LEARNED], load_pairs("number_words", "test", "en", "de"))
    )
    test = list(token_batches(test_ids, 4000))
    runs = []
    for seed in range(args.seeds):
        for epsilon_ls in EPSILONS:
            settings = TrainingConfig(**TRAINING, epsilon_ls=epsilon_ls, seed=seed)
            torch.manual_seed(seed)
            model = Transformer(TransformerConfig(vocabulary_size=len(tokenizer), **MODEL))
            optimizer, files = adam(model, settings), []
            with tempfile.TemporaryDirectory() as folder:
                for record in train(model, optimizer, epochs(ids, model.config, settings), settings):
                    if record.step_num in AVERAGED:
                        files.append(Path(folder, f"{record.step_num}.pt"))
                        save_checkpoint(files[-1], model, optimizer, record.step_num)
                model.load_state_dict(average_checkpoints(files))
            runs.append({"epsilon_ls": epsilon_ls, "seed": seed, **score(model, test)})
            print({name: value for name, value in runs[-1].items() if name != "histogram"}, flush=True)
    path = write_result(
        "label_smoothing",
        {
            "what": "perplexity, accuracy and confidence on unseen numbers after training with label smoothing",
            "data": f"English to German number words: the first {LEARNED} pairs of train, {len(test_ids):,} of test",
            "vocabulary": len(tokenizer),
            "model": MODEL,
            "training": TRAINING | {"averaged": AVERAGED},
            "runs": runs,
            **provenance(0, time.monotonic() - started),
        },
    )
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
