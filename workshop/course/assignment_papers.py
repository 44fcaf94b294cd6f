"""What an instructor reads beside the assignments: how each chapter is marked, and one table of all exercises."""

import csv
import io
from dataclasses import replace
from typing import Any

from workshop.course.exercises import Exercise
from workshop.site.book_index import Page
from workshop.site.myst_blocks import Block
from workshop.site.plain_markdown import Plain

COLUMNS = ["label", "chapter", "number", "title", "kind", "difficulty", "minutes", "points", "marked", "teaches"]
RUBRIC_HEAD = """\
# Marking: {title}

{count} exercises, {points} points, about {minutes} minutes. {by_hand} points are given by hand; a student who hands in
the starters unchanged gets none."""


def with_code(plain: Plain, blocks: list[Block]) -> str:
    """The words of some blocks, with the code that they only show."""
    return plain.render(
        [replace(block, kind="fence", name="python") if block.name == "code-cell" else block for block in blocks]
    )


def explanation(plain: Plain, exercise: Exercise) -> str:
    """The words of a solution, with the code that it only shows."""
    return with_code(plain, exercise.explanation)


def rows(page: Page, plain: Plain, exercises: list[Exercise]) -> list[dict[str, Any]]:
    """The lines of the table for one chapter."""
    return [
        vars(exercise)
        | {
            "chapter": page.name,
            "number": plain.index.numbers.get((page.name, exercise.line), ""),
            "marked": "by machine" if exercise.is_graded_by_machine else "by hand",
        }
        for exercise in exercises
    ]


def table(lines: list[dict[str, Any]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def rubric(page: Page, plain: Plain, exercises: list[Exercise]) -> str:
    """How each exercise of a chapter is marked, with its solution and the mistakes that people make."""
    head = RUBRIC_HEAD.format(
        title=plain.inline(page.title, 1),
        count=len(exercises),
        points=sum(exercise.points for exercise in exercises),
        minutes=sum(exercise.minutes for exercise in exercises),
        by_hand=sum(exercise.points for exercise in exercises if not exercise.is_graded_by_machine),
    )
    return "\n\n".join([head, *(_section(page, plain, exercise) for exercise in exercises)]) + "\n"


def _section(page: Page, plain: Plain, exercise: Exercise) -> str:
    number = plain.index.numbers.get((page.name, exercise.line), "")
    facts = f"`{exercise.label}`, {exercise.kind}, {exercise.difficulty}, {exercise.minutes} minutes, "
    parts = [f"## {number}: {plain.inline(exercise.title, exercise.line)}", f"{facts}{exercise.points} points"]
    parts += [f"The student practises: {exercise.teaches}."]
    if exercise.is_graded_by_machine:
        numbers = f"{exercise.cells['numbers']}\n\n" if "numbers" in exercise.cells else ""
        parts.append(
            f"{exercise.visible_points} points for the check that the student sees, "
            f"{exercise.points - exercise.visible_points} for the hidden one.\n\n"
            f"```python\n{numbers}{exercise.cells['solution']}\n```"
        )
    else:
        lines = [f"| {points} | {plain.inline(words, exercise.line)} |" for points, words in exercise.rubric]
        parts.append("\n".join(["| points | for |", "|---|---|", *lines]))
    parts.append(explanation(plain, exercise))
    parts += [
        f"A typical mistake, which costs {wrong.loses} of {exercise.points} points:\n\n```python\n{wrong.source}\n```"
        for wrong in exercise.wrong_answers
    ]
    return "\n\n".join(part for part in parts if part)
