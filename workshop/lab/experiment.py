"""What the programs in experiments/ share: their options, one thread, their progress, a record with its provenance."""

import argparse
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from workshop.lab.provenance import provenance, write_result

STARTED = time.monotonic()  # the seconds of a record count from here


def record(
    name: str, about: str | None, measured: Callable[..., dict[str, Any]], **options: str | float
) -> dict[str, Any]:
    """Run an experiment by its command line, write `experiments/results/NAME.json`, and return what stands there.

    Args:
        about: the docstring of the experiment, whose first line describes the command.
        measured: makes the record, without its provenance, from the options.
        options: of the command line with their defaults, such as seeds=3.
    """
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    for option, default in options.items():
        parser.add_argument(f"--{option}", type=type(default), default=default, help=f"default: {default}")
    arguments = vars(parser.parse_args())
    torch.set_num_threads(1)
    result = measured(**arguments) | provenance(arguments.get("seed", 0), time.monotonic() - STARTED)
    print(f"written to {write_result(name, result).name}")
    return result


def each(run: Callable[..., dict[str, Any]], cases: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """`run(*case)` of each case. A line tells when a run is done, and its numbers; long lists are left out."""
    runs = []
    for case in cases:
        runs.append(run(*case))
        short = {name: value for name, value in runs[-1].items() if not (isinstance(value, list) and len(value) > 8)}
        print(f"{time.monotonic() - STARTED:5.0f} s  {short}", flush=True)
    return runs
