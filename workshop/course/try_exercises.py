"""Try the exercises of chapters: the starter earns nothing, the solution everything, each wrong answer what it says.

    python -m workshop.course.try_exercises [attention …]

An exercise with a cell of numbers is tried with every combination that a student may get: each answer earns what it
should, and the solution of another student loses. This runs the code of the exercises alone, in one process.
`make grade` does the same through nbgrader.
"""

import argparse
import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workshop.course.exercise_context import asked, bound, context, plain_python, read
from workshop.course.exercises import PASSED, Exercise, exercises_of, split_check
from workshop.course.grading.counted import counted
from workshop.course.grading.wire import kept
from workshop.course.variants import combinations
from workshop.site.book_index import Page, pages_in_order
from workshop.site.myst_blocks import PageError
from workshop.site.plain_markdown import Plain, whole_book

ROOT = Path(__file__).resolve().parents[2]


# An answer that makes the parts it is given equal to nothing, and returns that.
EMPTIES = """
def {name}(*given, **named):
    import torch
    given = [*given, *named.values()]
    with torch.no_grad():
        for one in given:
            for parameter in one.parameters() if isinstance(one, torch.nn.Module) else ():
                parameter.zero_()
    return torch.zeros_like(next(one for one in given if isinstance(one, torch.Tensor)))
"""


@dataclass
class Mark:
    """What one answer earned, and why."""

    points: int
    visible: str  # what the visible check said
    hidden: str  # what the hidden check found; empty if nothing


def run(source: str, names: dict[str, Any]) -> str:
    """Run a cell in a namespace; the text of the error, or nothing."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(plain_python(source), "<cell>", "exec"), names)  # the book's own code
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def mark(exercise: Exercise, answer: str, names: dict[str, Any]) -> Mark:
    """The points of one answer."""
    names = dict(names)
    raised = run(answer, names)
    names.update({name: kept(names[name]) for name in asked(exercise) & {*names}})
    definitions, call = split_check(exercise.cells["check"])
    raised = run(f"{definitions}\nmessage_of_the_check = {call}", names) or raised
    visible = raised or str(names["message_of_the_check"])
    hidden = raised if raised and "message_of_the_check" not in names else run(exercise.cells["hidden-check"], names)
    points = exercise.visible_points * visible.startswith(PASSED) + exercise.visible_points * (not hidden)
    return Mark(points, visible, hidden)


@contextlib.contextmanager
def prepared(page: Page, plain: Plain, exercise: Exercise) -> Iterator[dict[str, Any]]:
    """The namespace in which an exercise is tried: the cells that it stands on have run."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for source in context(page, plain, exercise):
        if error := run(source, names):
            raise SystemExit(f"a cell that the exercise stands on failed: {error}\n{source[:500]}")
    try:
        yield names
    finally:
        end(names)


def end(names: dict[str, Any]) -> None:
    """What the end of a notebook does: the folders that its cells made go."""
    for value in names.values():
        if isinstance(value, tempfile.TemporaryDirectory):
            value.cleanup()


def trials(exercise: Exercise) -> list[tuple[str, str, int]]:
    """What is tried, its code, and the points it must earn."""
    wrong = [
        (f"wrong answer, line {wrong.line}", wrong.source, exercise.points - wrong.loses)
        for wrong in exercise.wrong_answers
    ]
    functions = re.findall(r"^def (\w+)", exercise.cells["answer"], re.MULTILINE)
    empties = [("what empties its parts", "".join(EMPTIES.format(name=name) for name in functions), 0)]
    return [
        *(empties if functions else []),
        ("untouched", exercise.cells["answer"], 0),
        ("solution", exercise.cells["solution"], exercise.points),
        *wrong,
    ]


def solved(exercise: Exercise, names: dict[str, Any], numbers: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The namespace with these numbers, and the values of the solution's answer in it."""
    space = dict(names)
    error = run(numbers, space)
    solution = dict(space)
    if error := error or run(exercise.cells["solution"], solution):
        raise SystemExit(f"{exercise.label} with {numbers}: {error}")
    return space, {name: solution[name] for name in sorted(asked(exercise)) if name in solution}


def try_numbers(exercise: Exercise, names: dict[str, Any]) -> list[str]:
    """Try an exercise with all numbers that a student may get; where an answer does not earn what it should.

    The solution of another student must lose: that for the combination before is tried, and no two may be the same. A
    mistake must read the same with all numbers: with some, two mistakes can be one number.
    """
    every = combinations(exercise.cells["numbers"])
    right = [solved(exercise, names, numbers) for numbers in every]
    answers = [repr(answer) for _, answer in right]
    faults = [
        f"{exercise.label}: its answer cell reads {name}, which is unknown to answers while they are graded"
        for name in sorted(bound(exercise.cells["numbers"]) & read(exercise.cells["answer"]))
    ]
    remarks: dict[str, str] = {}
    for i, numbers in enumerate(every):
        where = f"{exercise.label} with {', '.join(numbers.splitlines())}"
        for what, answer, expected in trials(exercise):
            found = mark(exercise, answer, right[i][0])
            if found.points != expected:
                faults.append(f"{where}, {what}: {counted(found.points, 'point')} INSTEAD OF {expected}")
            remark = re.sub(r"[-\d.,]+", "", found.visible)
            if remark != remarks.setdefault(what, remark):
                faults.append(f"{where}, {what}: the check takes it for another mistake, {found.visible!r}")
        of_another = mark(exercise, "", {**right[i][0], **right[i - 1][1]}).points
        if answers[i] in answers[:i] or of_another == exercise.points:
            faults.append(f"{where}: the solution with other numbers is right here, too")
    return faults


def try_page(name: str, show: bool = True, with_numbers_alone: bool = False) -> list[str]:
    """Try every exercise of a page, or those whose numbers are drawn; what did not earn what it should."""
    plain = whole_book(ROOT)[name]
    page, faults = plain.page, []
    for exercise in (exercise for exercise in exercises_of(page) if exercise.is_graded_by_machine):
        if with_numbers_alone and "numbers" not in exercise.cells:
            continue
        with prepared(page, plain, exercise) as names:
            for what, answer, expected in trials(exercise):
                found = mark(exercise, answer, names)
                line = f"{exercise.label}, {what}: {counted(found.points, 'point')}"
                if found.points != expected:
                    line += f" INSTEAD OF {expected}"
                    faults.append(line)
                if show:
                    print(f"{line}\n    visible: {found.visible}\n    hidden: {found.hidden or 'passed'}")
            if "numbers" in exercise.cells:
                faults += try_numbers(exercise, names)
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("chapters", nargs="*", help="default: all")
    every = [path.stem for path in pages_in_order(ROOT)]
    names = parser.parse_args().chapters or every
    if unknown := [name for name in names if name not in every]:
        parser.error(f"no chapter {', '.join(unknown)}; there are: {', '.join(every)}")
    try:
        faults = [fault for name in names for fault in try_page(name)]
    except PageError as error:
        sys.exit(f"book/{error}")
    print("\n".join(faults) or "Every answer earned what it should.")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
