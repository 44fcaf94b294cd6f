"""A quarter of an hour on a CPU: does the library learn German to English from real sentences?

    TRANSFORMER_LIB_DATA=... python experiments/multi30k_cpu.py

A small model, trained through the command line's own `train`, scored on test_2016_flickr. This shows that the
pipeline learns; it is far from what the data allow, which needs a longer run on a GPU.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

from transformer_lib import count_parameters
from transformer_lib.data import load_pairs
from transformer_lib.run import cli
from transformer_lib.run.translator import Translator
from workshop.lab.provenance import provenance, write_result

MODEL = ["d_model=256", "d_ff=512", "num_layers=2", "num_heads=4", "p_drop=0.1"]
SHOWN = 8  # sentences whose translation is written down


def main() -> None:
    """Train, score, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=12.0, help="of training (default: 12)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("checkpoints/multi30k_cpu"))
    args = parser.parse_args()
    training = ["num_steps=20000", "batch_tokens=2500", "warmup_steps=800", f"seed={args.seed}"]

    started = time.monotonic()
    where = [str(args.folder), "--data", "multi30k", "--source", "de", "--target", "en", "--device", "cpu"]
    limits = ["--vocabulary-size", "4000", "--minutes", str(args.minutes), "--validate-every", "100"]
    status = cli.main(["train", *where, *limits, "--model", *MODEL, "--training", *training])
    if status:
        raise SystemExit(status)
    translator = Translator.load(args.folder)
    pairs = load_pairs("multi30k", "test_2016_flickr", "de", "en")
    scores = translator.score(pairs)
    steps = [json.loads(line) for line in (args.folder / "metrics.jsonl").read_text().splitlines()]
    path = write_result(
        "multi30k_cpu",
        {
            "what": "Multi30k German to English, a small model trained for minutes on a CPU",
            "data": "multi30k task 1 raw: train to learn, val to watch, test_2016_flickr scored once at the end",
            "model": asdict(translator.model.config),
            "training": training,
            "parameters": count_parameters(translator.model),
            "steps": steps[-1]["step_num"],
            "target_tokens_seen": sum(step["target_tokens"] for step in steps),
            "bleu_greedy": round(scores.bleu.score, 2),
            "bleu_signature": scores.bleu.signature,
            "learning_curve": [step for step in steps if "val_perplexity" in step],
            # The corpus itself may not be passed on, so its sentences are not written down.
            "hypotheses_of_the_first_sentences": scores.hypotheses[:SHOWN],
            **provenance(args.seed, time.monotonic() - started),
        },
    )
    print(f"BLEU = {scores.bleu.score:.2f} ({scores.bleu.signature}), written to {path.name}")


if __name__ == "__main__":
    main()
