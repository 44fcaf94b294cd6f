"""What an instructor reads beside the assignments: how each chapter is marked."""

import tomllib
from dataclasses import replace
from pathlib import Path

from workshop.course.exercises import Exercise, tags
from workshop.course.grading.counted import counted
from workshop.course.variants import written
from workshop.site.book_index import Page
from workshop.site.filled import filled
from workshop.site.myst_blocks import Block
from workshop.site.plain_markdown import Plain

HALF_RIGHT = Path(__file__).with_name("half_right.toml")


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


def half_right(exercise: Exercise) -> str:
    """An answer to a written exercise that earns half of its points, and for what."""
    half = tomllib.loads(HALF_RIGHT.read_text("utf-8"))[exercise.label]
    return f"**An answer with {sum(half['points'])} of {exercise.points} points** " + (
        f"({' + '.join(map(str, half['points']))}, line by line)\n\n> {half['answer']}"
    )


def rubric(page: Page, plain: Plain, exercises: list[Exercise]) -> str:
    """How each exercise of a chapter is marked, with its solution and the mistakes that people make."""
    own = {"counted": counted, "numbered": numbered, "with_code": with_code, "half_right": half_right}
    return filled("rubric.md", page=page, plain=plain, exercises=exercises, **own)
