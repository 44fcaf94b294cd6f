"""What a student's own notebook calls right, the grader calls right, and the other way round, for every exercise.

Each answer is judged twice: in one process, as a notebook and Otter do, and across the wall, as `make grade` does. They
are the solutions and typical mistakes of the chapters, a pool of right and wrong answers in forms that no chapter shows
(answers.toml, right_answers.toml), and the solutions in other types and wrappings.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from answers import (
    CHANGES_ITS_ARGUMENTS,
    LONG,
    POOL,
    RIGHT,
    filled_in,
    of_another_kind,
    of_one_type,
    other_callables,
    other_types,
    spoiling,
)

from workshop.course.assignment_notebook import assignment
from workshop.course.exercise_context import asked
from workshop.course.exercises import PASSED, Exercise
from workshop.course.grading.checker import Chapter, Run
from workshop.course.grading.exercise_parts import told
from workshop.course.grading.sandbox import WITHOUT, Limits, missing
from workshop.course.make_assignments import chapters
from workshop.course.try_exercises import Mark, end, mark, prepared, run, trials
from workshop.site.address import configured

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # a notebook prints warnings, and goes on
ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = chapters()
QUICK = {"attention", "masks", "decoding"}  # across the wall: one that holds the trial's answers, or two
# Label, code → what the visible check says among others.
SAYS = {(label, one["code"]): one["says"] for label, pool in POOL.items() for one in pool if "says" in one}
Judged = dict[tuple[str, str], tuple[bool, bool]]  # label, what → whether the check and the hidden one pass


def in_rings(quick: Any) -> pytest.MarkDecorator:
    """A test of each chapter; those of one chapter run one after the other, and judge its answers once."""
    names = [pytest.param(name, marks=[] if quick(name) else pytest.mark.deep) for name in CHAPTERS]
    return pytest.mark.parametrize("name", names, scope="module")


def answers_to(one: Exercise, names: dict[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    """What is tried, its code, and the points it must earn; None: all, or none that the student could see.

    A number is right in every type: its reader writes "12" or 12.
    """
    yield from trials(one)
    for answer in POOL.get(one.label, []):
        yield answer["code"], answer["code"], answer["earns"]
    for code in RIGHT.get(one.label, []):
        yield code, filled_in(one, code), one.points
    values = dict(names)
    run(one.cells["solution"], values)
    for what, source in other_types(one, values):
        if not run(source, dict(names)):  # not all have such a form
            reads = one.kind == "predict" or "read_numbers(" in one.cells["check"]
            yield what, source, one.points if reads else None
    for what, source in other_callables(one, values):
        yield what, source, one.points
    for what, source in of_one_type(one, values):
        yield what, source, None
    if one.label not in CHANGES_ITS_ARGUMENTS and any(callable(values.get(name)) for name in asked(one)):
        yield "spoils its arguments", spoiling(one, values), one.points


def passes(found: Mark) -> tuple[bool, bool]:
    return found.visible.startswith(PASSED), not found.hidden


@cache
def in_the_notebook(name: str) -> tuple[list[str], Judged, list[tuple[Exercise, str, str]]]:
    """Which answers earn what they should not, how each was judged, and the answers."""
    page, plain, exercises = CHAPTERS[name]
    faults, judged, tried = [], {}, []
    for one in (one for one in exercises if one.is_graded_by_machine):
        with prepared(page, plain, one) as names:
            for what, source, points in answers_to(one, names):
                found = mark(one, source, names)
                if found.points not in ((0, one.points) if points is None else (points,)):
                    faults.append(f"{one.label}, {what}: {found}")
                if SAYS.get((one.label, what), "") not in found.visible:
                    faults.append(f"{one.label}, {what}: says {found.visible!r}")
                judged[one.label, what] = passes(found)
                tried.append((one, what, source))
    return faults, judged, tried


def across_the_wall(name: str, tried: list[tuple[Exercise, str, str]], fonts: Path) -> Judged:
    """The same answers as `make grade` judges them, in one notebook, each with its checks below it."""
    page, plain, _ = CHAPTERS[name]
    given = [told(cell) for cell in assignment(page, plain, configured(ROOT)).cells if cell.cell_type == "code"]
    cells = [cell for cell in given if cell["role"] == "setup"]
    of = {cell["name"]: cell for cell in given}
    keys: list[tuple[str, str, str] | None] = [None] * len(cells)
    for one, what, source in tried:
        cells.append({**of[one.label], "source": source})
        keys.append(None)
        for part in ("check", "hidden"):
            cells.append(of[f"{one.label}-{part}"])
            keys.append((one.label, what, part))
    limits = Limits(notebook_seconds=3600, cell_seconds=120)
    chapter = Chapter(cells)
    outputs = Run(cells, chapter, limits, fonts).whole()
    for space in chapter.spaces.values():
        end(space)
    failed = [any(output["output_type"] == "error" for output in found) for found in outputs]
    parts = {key: not bad for key, bad in zip(keys, failed, strict=True) if key}
    return {(label, what): (parts[label, what, "check"], parts[label, what, "hidden"]) for label, what, _ in parts}


@in_rings(lambda name: name not in LONG)
def test_an_answer_in_another_form_earns_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "book")
    faults, _, _ = in_the_notebook(name)
    assert faults == []


@in_rings(lambda name: name in QUICK)
def test_what_the_notebook_calls_right_the_grader_calls_right(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WITHOUT, "1" if missing(ROOT / ".venv" / "bin" / "python") else "0")
    monkeypatch.chdir(ROOT / "book")
    _, here, tried = in_the_notebook(name)
    there = across_the_wall(name, tried, tmp_path)
    refused = {(label, one["code"]) for label, pool in POOL.items() for one in pool if one.get("refused")}
    expected = {key: (False, False) if key in refused else found for key, found in here.items()}
    assert {key: (there[key], expected[key]) for key in there if there[key] != expected[key]} == {}


@in_rings(lambda name: name in QUICK)
def test_a_check_answers_what_it_cannot_judge_in_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "book")
    page, plain, exercises = CHAPTERS[name]
    faults = []
    for one in (one for one in exercises if one.is_graded_by_machine):
        with prepared(page, plain, one) as names:
            values = dict(names)
            run(one.cells["solution"], values)
            for what, source in of_another_kind(one, values):
                found = mark(one, source, names)
                # All points: it has no number that was changed. Half: the hidden check judges the function alone.
                earned = (0, one.points, one.points / 2 if one.label == "ex-self-gates" else 0)
                if found.points not in earned or re.match(r"\w*Error: ", found.visible):
                    faults.append(f"{one.label}, {what}: {found}")
    assert faults == []


def test_every_exercise_has_answers_in_the_pool() -> None:
    labels = [one.label for _, _, exercises in CHAPTERS.values() for one in exercises if one.is_graded_by_machine]
    assert {*POOL, *RIGHT} <= {*labels}, "an answer to no exercise"
    assert [label for label in labels if label not in POOL] == []
