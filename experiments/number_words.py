"""Train, score and pack the translator of number words that comes with the package: English to German.

    python experiments/number_words.py

The command line's own `train`, a minute or two on one CPU core, to exact translations of numbers it has never seen.
The book's page with the translator in the browser uses what is packed here: run workshop/site/export_onnx.py after it.
"""

import tempfile
from pathlib import Path
from typing import Any

from experiments.by_command import steps_of, train
from transformer_lib import count_parameters
from transformer_lib.data import load_pairs
from transformer_run.translator import PRETRAINED, Translator
from workshop.lab.experiment import record

NAME = "number_words_en_de"
CORPUS = ["--data", "number_words", "--tokenizer", "space", "--source", "en", "--target", "de"]
MODEL = ["d_model=64", "d_ff=256", "num_layers=2", "num_heads=4", "d_k=16", "d_v=16", "p_drop=0.0"]
TRAINING = ["num_steps=1000", "batch_tokens=700", "accumulate=3", "warmup_steps=3000"]


def ship(folder: Path, name: str, parts: dict[str, list[tuple[str, str]]]) -> dict[str, Any]:
    """Pack the last checkpoint under this name, and score what was packed on each part."""
    Translator.load(folder).pack(PRETRAINED / name)
    packed = Translator.load(PRETRAINED / name)
    lines = steps_of(folder)
    return {
        "parameters": count_parameters(packed.model),
        "bytes": {path.name: path.stat().st_size for path in sorted((PRETRAINED / name).glob("*.[js]*"))},
        "target_tokens_seen": sum(line["target_tokens"] for line in lines),
        "val_perplexity": lines[-1]["val_perplexity"],
        "exact_match": {part: packed.score(pairs).exact_match for part, pairs in parts.items()},
    }


def origin(result: dict[str, Any], words: str = "vocabulary") -> str:
    """What a card says of the size and the training."""
    return f"""\
{result["parameters"]:,} parameters, the weights in 8 bits: {sum(result["bytes"].values()) / 1e3:.0f} kB with the
{words}. {", ".join(result["model"])};
{", ".join(result["training"])}, seed {result["seed"]}:
{result["target_tokens_seen"] / 1e6:.1f} million target tokens, {result["seconds"]:.0f} seconds in all on
{result["device"]}, {result["threads"]} thread(s), beside other work; commit {result["commit"]}."""


def card(result: dict[str, Any]) -> str:
    """What a user of the weights must know, from the result."""
    return f"""# {NAME}

A small Transformer that turns numbers from English words into German words: "forty seven" into "sieben und vierzig",
with spaces between the parts. It comes with `transformer_lib`. This card is written by `experiments/number_words.py`.

    echo "four hundred forty seven" | python -m transformer_run translate {NAME}

{origin(result)}

Of 1,000 numbers that training never saw, {100 * result["exact_match"]["test"]:.1f} % come out exactly as they should
(recorded {result["date"]}).

It knows the {result["vocabulary"]} English and German words of the numbers from 0 to 999,999, and no others.
"""


def measured(seed: int) -> dict[str, Any]:
    """Train, score and pack; the record of all three."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ["--model", *MODEL, "--training", *TRAINING, f"seed={seed}"]
        train(Path(folder, "run"), *CORPUS, "--device", "cpu", *settings)  # as the README shows it
        parts = {part: load_pairs("number_words", part, "en", "de") for part in ("val", "test")}
        result = {
            "what": f"the translator {NAME} that comes with the package: numbers up to 999,999 in words",
            "data": "the package's own generator; test scored once, after training",
            "corpus": CORPUS,
            "model": MODEL,
            "training": TRAINING,
            **ship(Path(folder, "run"), NAME, parts),
        }
    words = len(Translator.load(PRETRAINED / NAME).source_tokenizer) - 4  # without the special tokens
    return result | {"vocabulary": words}


if __name__ == "__main__":
    recorded = record(NAME, __doc__, measured, seed=0)
    (PRETRAINED / NAME / "README.md").write_text(card(recorded), encoding="utf-8")
