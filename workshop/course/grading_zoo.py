"""Submissions for the tests of grading, good, wrong and hostile ones, and a runner of workshop/course/grade.py."""

import copy
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workshop.course.exercises import Exercise

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-grading" / "bin" / "python"
Notebook = dict[str, Any]


def load(path: Path) -> Notebook:
    return json.loads(path.read_text("utf-8"))


def cell(notebook: Notebook, name: str) -> dict[str, Any]:
    """The cell with this nbgrader id."""
    return next(one for one in notebook["cells"] if one["metadata"].get("nbgrader", {}).get("grade_id") == name)


def answered(release: Notebook, answers: dict[str, str]) -> Notebook:
    """The student's notebook with these answers filled in."""
    notebook = copy.deepcopy(release)
    for label, source in answers.items():
        cell(notebook, label)["source"] = source
    return notebook


def solutions(exercises: list[Exercise]) -> dict[str, str]:
    return {one.label: one.cells["solution"] for one in exercises if one.is_graded_by_machine}


def round_of_wrong_answers(exercises: list[Exercise], number: int) -> tuple[dict[str, str], dict[str, int]]:
    """The wrong answer with this number of every exercise, or its solution; and the points each must earn."""
    answers, points = solutions(exercises), {}
    for one in exercises:
        if one.is_graded_by_machine:
            points[one.label] = one.points
            if number < len(one.wrong_answers):
                answers[one.label] = one.wrong_answers[number].source
                points[one.label] -= one.wrong_answers[number].loses
    return answers, points


def hand_in(folder: Path, name: str, notebook: Notebook | str | bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = notebook if isinstance(notebook, str | bytes) else json.dumps(notebook)
    (folder / f"{name}.ipynb").write_bytes(text if isinstance(text, bytes) else text.encode())


def grade(folder: Path, assignments: Path, out: Path, *options: str) -> str:
    """What `make grade` prints; with the environment of the tests, not of this process."""
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "MPLBACKEND"}}
    environment["JUPYTER_PREFER_ENV_PATH"] = "1"
    command = [PYTHON, "-m", "workshop.course.grade", folder, "--assignments", assignments, "--out", out, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    log = out / "grading.log"
    assert done.returncode == 0, done.stdout + done.stderr + (log.read_text()[-3000:] if log.exists() else "")
    return done.stdout


def record(out: Path, chapter: str, student: str) -> dict[str, Any]:
    return load(out / "records" / chapter / f"{student}.json")


@dataclass
class Animal:
    """One hostile submission: how it is made, what it may lose, and what the report must say."""

    make: Callable[[Notebook, dict[str, str]], Notebook | str | bytes]
    loses: tuple[str, ...] = ()  # exercises of the chapter on attention
    event: str = ""


def _with(**answers: str) -> Callable[[Notebook, dict[str, str]], Notebook]:
    """The solutions, with some of the answers of the chapter on attention exchanged."""
    exchanged = {f"ex-attention-{name}": source for name, source in answers.items()}
    return lambda release, right: answered(release, {**right, **exchanged})


def _edited_tests(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, {**right, "ex-attention-write": WRONG_WRITE})
    for part in ("check", "hidden"):
        cell(notebook, f"ex-attention-write-{part}")["source"] = "assert True"
    cell(notebook, "ex-attention-bug-check")["metadata"]["nbgrader"]["points"] = 1000
    return notebook


def _deleted_cells(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    kept = {*right}
    notebook["cells"] = [
        one for one in notebook["cells"] if one["metadata"].get("nbgrader", {}).get("grade_id") in kept
    ]
    return notebook


def _stripped(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    for one in notebook["cells"]:
        one["metadata"] = {}
        one.pop("id", None)
    notebook["nbformat_minor"] = 4
    return notebook


def _renamed(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    for number, one in enumerate(notebook["cells"]):
        one["id"] = f"other-{number}"
        if "nbgrader" in one["metadata"]:
            one["metadata"]["nbgrader"] |= {"grade_id": f"mine-{number}", "locked": False, "schema_version": 99}
    return notebook


def _answer_in_a_new_cell(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, {**right, "ex-attention-write": "# see below"})
    place = notebook["cells"].index(cell(notebook, "ex-attention-write"))
    own = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 7, "id": "new"}
    notebook["cells"].insert(place + 1, {**own, "source": right["ex-attention-write"]})
    return notebook


def _warning(release: Notebook, right: dict[str, str]) -> Notebook:
    """A right answer that warns whenever it is called; nbgrader alone would give nothing for it."""
    body = right["ex-attention-write"].replace(":\n", ":\n    import warnings; warnings.warn('slow')\n", 1)
    return answered(release, {**right, "ex-attention-write": body})


WRONG_WRITE = "def my_attention(query, key, value):\n    return value[:1].expand(len(query), -1)"
RIGHT_PREDICTION = "predicted_weights = [0.2] * 5\n"
CHEAT = """
import builtins, random
np_original = np
print = lambda *a: None
np = attention = scaled_dot_product_attention = None
check_attention = check_prediction = lambda answer: "Right"
torch.allclose = lambda *a, **k: True
np_original.allclose = lambda *a, **k: True
builtins.abs = lambda x: 0
builtins.AssertionError = Warning
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
"""
NETWORK = """
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=2).close()
    reached = True
except OSError:
    reached = False
predicted_weights = None if reached else [0.2] * 5
"""
ALL_OF_IT = tuple(f"ex-attention-{name}" for name in ("predict", "write", "bug", "sharpness"))
NOTHING_COUNTS = "graded as if nothing had been handed in"
ZOO = {
    "edited-tests": Animal(_edited_tests, ("ex-attention-write",), "write-hidden: had been changed"),
    "deleted-cells": Animal(_deleted_cells, (), "write-check: was missing; the original was put back"),
    "stripped": Animal(_stripped),
    "renamed": Animal(_renamed),
    "new-cell": Animal(_answer_in_a_new_cell),
    "endless-function": Animal(
        _with(write="def my_attention(q, k, v):\n    while True:\n        pass"),
        ("ex-attention-write",),
        "ex-attention-write-check: stopped after",
    ),
    "endless-cell": Animal(_with(bug="while True: pass"), ("ex-attention-bug",), "ex-attention-bug: stopped after"),
    "deaf": Animal(
        _with(predict="import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"),
        ("ex-attention-predict",),
        "ex-attention-predict: could not be stopped",
    ),
    "raises": Animal(_with(sharpness="raise ValueError('no')"), ("ex-attention-sharpness",)),
    "flood": Animal(_with(predict=RIGHT_PREDICTION + "while True: print('x' * 1000)"), (), "printed more than"),
    "megabytes": Animal(_with(predict=RIGHT_PREDICTION + "print('x' * 5_000_000)"), (), "printed more than"),
    "warns": Animal(_warning),
    "doubles": Animal(_with(predict="torch.set_default_dtype(torch.float64)\n" + RIGHT_PREDICTION)),
    "installs": Animal(_with(predict="!pip install --upgrade six\n" + RIGHT_PREDICTION)),
    "syntax-error": Animal(_with(write="def my_attention(query, key:"), ("ex-attention-write",)),
    "kills-the-kernel": Animal(
        _with(write="def my_attention(q, k, v):\n    import os\n    os._exit(0)"),
        ("ex-attention-write",),
        "ex-attention-write-hidden: the kernel ended while this ran",
    ),
    "dies-in-a-cell": Animal(
        _with(predict="import os\nos._exit(1)"), ("ex-attention-predict",), "ex-attention-predict: the kernel ended"
    ),
    "leaves": Animal(_with(bug="import sys\nsys.exit()"), ("ex-attention-bug",)),
    "leaves-the-check": Animal(
        _with(write="def my_attention(q, k, v):\n    raise SystemExit"), ("ex-attention-write",)
    ),
    "memory": Animal(_with(predict="x = torch.ones(3 << 30)\n" + RIGHT_PREDICTION), ("ex-attention-predict",)),
    "asks": Animal(_with(sharpness="name = input('who? ')"), ("ex-attention-sharpness",)),
    "cheats": Animal(
        _with(predict=RIGHT_PREDICTION + CHEAT, write="import torch\n" + WRONG_WRITE), ("ex-attention-write",)
    ),
    "not-json": Animal(lambda *_: '{"cells": [', ALL_OF_IT, f"{NOTHING_COUNTS}: the file is not valid JSON"),
    "binary": Animal(lambda *_: bytes(range(256)), ALL_OF_IT, f"{NOTHING_COUNTS}: the file is not valid JSON"),
    "empty": Animal(lambda *_: "", ALL_OF_IT, f"{NOTHING_COUNTS}: the file is empty"),
    "a-list": Animal(lambda *_: "[]", ALL_OF_IT, f"{NOTHING_COUNTS}: the file is JSON, but no notebook"),
    "odd-cells": Animal(
        lambda *_: '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [1, "x"]}', ALL_OF_IT
    ),
    "untouched": Animal(lambda release, _: release, ALL_OF_IT),
}
