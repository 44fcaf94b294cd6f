"""What an instructor reads beside the assignments: how each chapter is marked, and one table of all exercises."""

import csv
import io
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from workshop.course.exercises import Exercise, tags
from workshop.course.grading.counted import counted
from workshop.course.variants import written
from workshop.site.book_index import Page
from workshop.site.myst_blocks import Block
from workshop.site.plain_markdown import Plain

COLUMNS = [
    "label",
    "chapter",
    "in_chapter",
    "number",
    "title",
    "kind",
    "difficulty",
    "minutes",
    "points",
    "marked",
    "teaches",
]
HALF_RIGHT = Path(__file__).with_name("half_right.toml")
RUBRIC_HEAD = """\
# Marking: {title}

{count}, {points}, about {minutes} minutes. Given by hand: {by_hand}. A student who hands in the starters unchanged gets
none.

Where two people mark written answers: a line of a rubric counts whole where the answer says it, in whatever words; a
line of two points counts one where only one of its halves is said; what is named, without what is done, counts nothing.
First mark the half-right answer below without its points: whoever differs by more than one reads the line again. Then
both mark the same five answers, and talk about each that differs by more than one."""


def with_code(plain: Plain, blocks: list[Block]) -> str:
    """The words of some blocks, with the code that they only show."""
    return plain.render(
        [
            replace(_shown(block), kind="fence", name="python") if block.name == "code-cell" else block
            for block in blocks
        ]
    )


def _shown(block: Block) -> Block:
    """Code without what only the drawing of numbers needs."""
    return replace(block, body=[*map(written, block.body)]) if "numbers" in tags(block) else block


def numbered(page: Page, plain: Plain, exercise: Exercise, place: int) -> str:
    """An exercise by its place in the chapter, beside its number in the book: `Exercise 3 (20 in the book)`."""
    number = plain.index.numbers.get((page.name, exercise.line), "").removeprefix("Exercise ")
    return f"Exercise {place}" + (f" ({number} in the book)" if number else "")


def explanation(plain: Plain, exercise: Exercise) -> str:
    """The words of a solution, with the code that it only shows."""
    return with_code(plain, exercise.explanation)


def half_right(exercise: Exercise) -> str:
    """An answer to a written exercise that earns half of its points, and for what."""
    half = tomllib.loads(HALF_RIGHT.read_text("utf-8"))[exercise.label]
    return f"**An answer with {sum(half['points'])} of {exercise.points} points** " + (
        f"({' + '.join(map(str, half['points']))}, line by line)\n\n> {half['answer']}"
    )


def rows(page: Page, plain: Plain, exercises: list[Exercise]) -> list[dict[str, Any]]:
    """The lines of the table for one chapter."""
    return [
        vars(exercise)
        | {
            "chapter": page.name,
            "in_chapter": place,
            "number": plain.index.numbers.get((page.name, exercise.line), ""),
            "marked": "by machine" if exercise.is_graded_by_machine else "by hand",
        }
        for place, exercise in enumerate(exercises, 1)
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
        count=counted(len(exercises), "exercise"),
        points=counted(sum(exercise.points for exercise in exercises), "point"),
        minutes=sum(exercise.minutes for exercise in exercises),
        by_hand=counted(sum(one.points for one in exercises if not one.is_graded_by_machine), "point"),
    )
    return "\n\n".join([head, *(_section(page, plain, *one) for one in enumerate(exercises, 1))]) + "\n"


def _section(page: Page, plain: Plain, place: int, exercise: Exercise) -> str:
    number = numbered(page, plain, exercise, place)
    facts = f"`{exercise.label}`, {exercise.kind}, {exercise.difficulty}, {exercise.minutes} minutes, "
    parts = [f"## {number}: {plain.inline(exercise.title, exercise.line)}", f"{facts}{exercise.points} points"]
    parts += [f"The student practises: {exercise.teaches}."]
    if exercise.is_graded_by_machine:
        numbers = f"{exercise.cells['numbers']}\n\n" if "numbers" in exercise.cells else ""
        parts.append(
            f"{counted(exercise.visible_points, 'point')} for the check that the student sees, "
            f"{exercise.points - exercise.visible_points} for the hidden one.\n\n"
            f"```python\n{numbers}{exercise.cells['solution']}\n```"
        )
    else:
        lines = [f"| {points} | {plain.inline(words, exercise.line)} |" for points, words in exercise.rubric]
        parts += ["\n".join(["| points | for |", "|---|---|", *lines]), half_right(exercise)]
    parts.append(explanation(plain, exercise))
    parts += [
        f"A typical mistake, which costs {wrong.loses} of {exercise.points} points:\n\n```python\n{wrong.source}\n```"
        for wrong in exercise.wrong_answers
    ]
    return "\n\n".join(part for part in parts if part)
