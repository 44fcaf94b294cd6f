"""What a teacher plans with, read from the chapters: goals, what to know first, minutes, exercises and points."""

import re
from pathlib import Path

from workshop.course.exercises import Exercise, exercises_of
from workshop.site.book_index import Page, pages_in_order, parts_of_book, read_page

ABILITY = re.compile(r"\*\*You will be able to\*\*\s*(.*?)(?=\n\s*\n)", re.DOTALL)
FIRST = re.compile(r"\*\*Know first:\*\*\s*(.*?)(?=\n\s*\n)", re.DOTALL)
TIME = re.compile(r"\*\*Time:\*\*\s*(\d+) minutes(?: to read, (\d+) for the exercises)?")


def one_line(text: str) -> str:
    return " ".join(text.split())


def parts(root: Path) -> list[tuple[str, list[Page]]]:
    """Caption and pages of each part of the book that has exercises."""
    chapters = {path.stem: read_page(path) for path in pages_in_order(root)}
    parts = [(caption, [chapters.get(Path(name).name) for name in names]) for caption, names in parts_of_book(root)]
    chosen = [(caption, [page for page in pages if page and exercises_of(page)]) for caption, pages in parts]
    return [(caption, pages) for caption, pages in chosen if pages]


def _counted(exercises: list[Exercise]) -> str:
    machine = [exercise for exercise in exercises if exercise.is_graded_by_machine]
    by_hand = [exercise for exercise in exercises if not exercise.is_graded_by_machine]
    words = f"{len(machine)} exercises by machine, {sum(exercise.points for exercise in machine)} points"
    return words + (f"; {len(by_hand)} by hand, {sum(exercise.points for exercise in by_hand)}" if by_hand else "")


def entry(page: Page) -> str:
    """One chapter, as a list item."""
    box = next(block for block in page.blocks if "question" in str(block.options.get("class", ""))).text + "\n\n"
    ability, first, time = ABILITY.search(box), FIRST.search(box), TIME.search(box)
    if not (ability and first and time):
        raise ValueError(f"{page.path.name}: the box at the head lacks its goal, what to know first, or its time")
    goal, minutes = one_line(ability[1]), int(time[1]) + int(time[2] or 0)
    return (
        f"- **[{page.title}]({page.path.name})** ({minutes} minutes; {_counted(exercises_of(page))}). "
        f"*Goal:* {goal} *Know first:* {one_line(first[1])}"
    )


def markdown(root: Path) -> str:
    """The plan: a heading in bold for each part, an item for each chapter, and the sums."""
    lines: list[str] = []
    everything: list[Exercise] = []
    for caption, pages in parts(root):
        lines += ["", f"**{caption}.**", "", *map(entry, pages)]
        everything += [exercise for page in pages for exercise in exercises_of(page)]
    return "\n".join([f"All together: {_counted(everything)}.", *lines])
