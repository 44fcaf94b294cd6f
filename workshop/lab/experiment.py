"""What the programs in experiments/ share: options, runs of which none is made twice, a record."""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from workshop.lab.provenance import RESULTS, provenance, write_result

STARTED = time.monotonic()  # the seconds of a record count from here


def record(
    name: str, about: str | None, measured: Callable[..., dict[str, Any]], torch_threads: int | None = 1, **options: Any
) -> dict[str, Any]:
    """Run an experiment by its command line, write `experiments/results/NAME.json`, and return what stands there.

    Args:
        name: of the record, in which {seed} stands for the option seed.
        about: the docstring of the experiment, whose first line describes the command.
        measured: makes the record, without its provenance, from the options.
        torch_threads: of this process; None: as many as it takes.
        options: of the command line: defaults, such as seeds=3, or what add_argument takes.
    """
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    for option, given in options.items():
        usual = {"type": type(given), "default": given, "help": f"default: {given}"}
        parser.add_argument(f"--{option}", **(given if isinstance(given, dict) else usual))
    arguments = vars(parser.parse_args())
    if torch_threads:
        torch.set_num_threads(torch_threads)
    result = measured(**arguments)
    result |= provenance(arguments.get("seed", 0), time.monotonic() - STARTED)
    print(f"written to {write_result(name.format(**arguments), result).name}")
    return result


def each(run: Callable[..., dict[str, Any]], cases: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """`run(*case)` of each case. A line tells when a run is done, and its numbers; long lists are left out."""
    return [_told(run(*case)) for case in cases]


def runs(
    folder: Path,
    run: Callable[..., dict[str, Any] | None],
    cases: Mapping[str, tuple[Any, ...]],
    workers: int = 0,
    until: float = math.inf,
) -> list[dict[str, Any]]:
    """`run(*case)` of each case, in order, without those that are not done. What is done is not done again.

    Args:
        folder: of NAME.json, a file for each run. Of a run that says of itself `"ended": False`, and of one that
            returns None, more is to do.
        cases: by name.
        workers: runs side by side, each in a process of its own; 0: one after the other, in this process.
        until: of time.time(): no run begins later.
    """
    work = partial(_kept, folder, run, until), cases, cases.values()
    with processes(workers) if workers else nullcontext() as pool:
        return [found for found in (pool.map if pool else map)(*work) if found is not None]


def processes(number: int = 1, tasks: int | None = 1) -> ProcessPoolExecutor:
    """So many processes side by side, each for so many tasks, by default for one: its memory is its own."""
    return ProcessPoolExecutor(number, get_context("spawn"), max_tasks_per_child=tasks)


def _kept(
    folder: Path, run: Callable[..., dict[str, Any] | None], until: float, name: str, case: tuple[Any, ...]
) -> dict[str, Any] | None:
    path = folder / f"{name}.json"
    found = json.loads(path.read_text("utf-8")) if path.exists() else None
    if found and found.get("ended", True):
        return found
    found = run(*case) if time.time() < until else found
    if found is None:
        return None
    write_result(name, found, folder)
    return _told(found)


def _told(found: dict[str, Any]) -> dict[str, Any]:
    short = {name: value for name, value in found.items() if len(str(value)) <= 200}
    print(f"{time.monotonic() - STARTED:5.0f} s  {short}", flush=True)
    return found


def recorded(name: str) -> dict[str, Any]:
    """What stands in `experiments/results/NAME.json`."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
