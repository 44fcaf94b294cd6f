"""A finished translator goes on with a few hundred captions: what it gains on captions, and what it forgets.

    TRANSFORMER_LIB_DATA=... python experiments/fine_tuning.py

The command is `train --from tatoeba_de_en`, with the first pairs of Multi30k and what validates there. Three seeds at
the rate that the command chooses by itself, and one seed at a higher and at a lower rate. All translations are greedy.
"""

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

from experiments import by_command
from transformer_lib.data import load_pairs
from transformer_run import Translator
from transformer_run.settings import FINE_TUNING
from workshop.lab.experiment import each, record

BASE = "tatoeba_de_en"
TESTS = {"captions": ("multi30k", "test_2016_flickr"), "before": ("tatoeba", "test")}
OTHER_RATES = (4 * FINE_TUNING.rate_factor, FINE_TUNING.rate_factor / 5)


def scores(translator: Translator) -> dict[str, float]:
    """BLEU on captions, and on the sentences for which the translator was made."""
    return {
        name: round(translator.score(load_pairs(*test, translator.source, translator.target)).bleu.score, 2)
        for name, test in TESTS.items()
    }


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> list[str]:
    """Two files of lines, German and English; returns their paths."""
    paths = [folder / f"{name}.{language}" for language in ("de", "en")]
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), "utf-8")
    return [str(path) for path in paths]


def tuned(pairs: int, seed: int, rate_factor: float) -> dict[str, Any]:
    """Train on so many captions, and score what comes out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, val = (load_pairs("multi30k", split, "de", "en") for split in ("train", "val"))
        files = write_pairs(folder, "train", train[:pairs]), write_pairs(folder, "val", val[:200])
        arguments = ["--from", BASE, "--data", *files[0], "--validation", *files[1]]
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                by_command.train(folder / "run", *arguments, "--training", f"seed={seed}", f"rate_factor={rate_factor}")
        finally:
            print(said.getvalue())
        translator = Translator.load(folder / "run")
        lacking = [line for line in said.getvalue().splitlines() if "it lacks" in line]
        about = {"seed": seed, "rate_factor": rate_factor, "weights": translator.weights}
        return about | scores(translator) | {"lacking": lacking}


def measured(pairs: int, seeds: int) -> dict[str, Any]:
    """The base and what became of it."""
    cases = [(pairs, seed, FINE_TUNING.rate_factor) for seed in range(seeds)]
    cases += [(pairs, 0, rate) for rate in OTHER_RATES]
    return {
        "what": "BLEU of a translator before and after it went on with captions of photographs",
        "translator": BASE,
        "pairs": pairs,
        "validation_pairs": 200,
        "tests": {name: " ".join(test) for name, test in TESTS.items()},
        "base": scores(Translator.load(BASE)),
        "runs": each(tuned, cases),
    }


if __name__ == "__main__":
    record("fine_tuning", __doc__, measured, pairs=500, seeds=3)
