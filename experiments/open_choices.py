"""What the choices change that the paper leaves open, or that this library makes otherwise.

    python experiments/open_choices.py

Each choice is turned the other way in a copy of the package, or by a field of the configuration, and the small model of
experiments/seeded_defects.py is trained with it, several seeds each, beside the library as it is.
"""

from pathlib import Path
from typing import Any

from experiments.seeded_defects import AVERAGED, LIMIT, RESUMED, SCORED_ON, TRAINED_ON, TRAINING, run_jobs
from workshop.lab.defects import Defect, listed
from workshop.lab.experiment import record
from workshop.lab.small_model import SIZES

CHOICES = listed(Path(__file__).with_suffix(".toml"))


def measured(seeds: int, workers: int) -> dict[str, Any]:
    """The record of every choice, with so many seeds each and so many runs side by side."""
    choices = [Defect("as it is"), *CHOICES]
    jobs = [(choice, seed) for choice in choices for seed in range(seeds)]
    runs = run_jobs(jobs, workers)
    return {
        "what": "a small model trained with each open choice turned the other way; shares of unseen numbers right",
        "data": f"English to German number words below {LIMIT:,}: {TRAINED_ON:,} to learn, {SCORED_ON} to score",
        "model": SIZES | {"p_drop": 0.1},
        "training": TRAINING | {"averaged": AVERAGED, "resumed": RESUMED},
        "choices": {choice.name: [next(runs) for _ in range(seeds)] for choice in choices},
    }


if __name__ == "__main__":
    record("open_choices", __doc__, measured, seeds=3, workers=1)
