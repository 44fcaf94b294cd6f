"""Submissions of nobody, to try the grading with.

Of ten students, one hands in the starters unchanged; the others give to each exercise the solution, a typical wrong
answer or the starter, drawn from a fixed seed; one of three writes something by hand.
"""

import copy
import json
import random
from pathlib import Path
from typing import Any

from workshop.course.make_assignments import chapters

Notebook = dict[str, Any]


def load(path: Path) -> Notebook:
    """The notebook in a file."""
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


def hand_in(folder: Path, name: str, notebook: Notebook | str | bytes) -> None:
    """Put a submission of this name into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = notebook if isinstance(notebook, str | bytes) else json.dumps(notebook)
    (folder / f"{name}.ipynb").write_bytes(text if isinstance(text, bytes) else text.encode())


def write_class(folder: Path, assignments: Path, chapter: str, count: int) -> None:
    """The submissions of a class."""
    release = load(assignments / "release" / chapter / f"{chapter}.ipynb")
    _, _, exercises = chapters([chapter])[chapter]
    machine = [one for one in exercises if one.is_graded_by_machine]
    written = [one for one in exercises if not one.is_graded_by_machine]
    draw = random.Random(0)
    for number in range(count):
        answers = {}
        for one in machine if number % 10 else []:
            choices = [one.cells["solution"], *(wrong.source for wrong in one.wrong_answers), one.cells["answer"]]
            answers[one.label] = draw.choice([one.cells["solution"], *choices])
        for one in written if number % 3 == 1 else []:
            answers[one.label] = "Two models, equal but for one thing, five seeds each. (Nobody's answer, for trying.)"
        hand_in(folder, f"student{number:03d}_{chapter}", answered(release, answers))
