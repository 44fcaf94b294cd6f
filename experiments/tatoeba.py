"""Train the translators that ship with the package: German to English and English to German, on everyday sentences.

    TRANSFORMER_LIB_DATA=... python experiments/tatoeba.py --source de --target en --minutes 90

A small model on 166,760 pairs of Tatoeba, through the command line's own `train`. If the run is cut, the same command
goes on from its last checkpoint; the minutes count from the start of each command.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from provenance import provenance

from transformer_lib import cli

MODEL = ["d_model=192", "d_ff=384", "num_layers=2", "num_heads=4", "d_k=48", "d_v=48", "p_drop=0.1"]
TRAINING = ["num_steps=100000", "batch_tokens=2500", "warmup_steps=1000"]
LIMITS = ["--vocabulary-size", "4000", "--validate-every", "250", "--keep-last", "5"]


def train(folder: Path, args: argparse.Namespace) -> None:
    """Train for so many minutes, and note beside the checkpoints where they come from."""
    started = time.monotonic()
    where = [str(folder), "--device", args.device, "--minutes", str(args.minutes)]
    what = ["--data", "tatoeba", "--source", args.source, "--target", args.target]
    settings = ["--model", *MODEL, "--training", *TRAINING, f"seed={args.seed}"]
    resume = ["--resume"] if (folder / "checkpoints").exists() else []
    if status := cli.main(["train", *where, *what, *LIMITS, *settings, *resume]):
        raise SystemExit(status)
    (folder / "trained.json").write_text(json.dumps(provenance(args.seed, time.monotonic() - started), indent=1))


def main() -> None:
    """Train one direction."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--source", choices=["de", "en"], default="de")
    parser.add_argument("--target", choices=["de", "en"], default="en")
    parser.add_argument("--minutes", type=float, default=90.0, help="of training (default: 90)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    folder = Path(f"checkpoints/tatoeba_{args.source}_{args.target}")
    train(folder, args)


if __name__ == "__main__":
    main()
