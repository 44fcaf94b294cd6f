"""What a teacher plans with, read from the chapters: goals, what to know first, minutes, exercises and points.

The courses stand as tables on the page for instructors. A week takes the minutes of its chapters, and those of the
exercises of the chapters that are handed in; the time that a chapter states holds all of its exercises.
"""

import re
from pathlib import Path

from workshop.course.exercises import Exercise, exercises_of
from workshop.site.book_index import Page, pages_in_order, parts_of_book, read_page
from workshop.site.filled import filled

ABILITY = re.compile(r"\*\*You will be able to\*\*\s*(.*?)(?=\n\s*\n)", re.DOTALL)
FIRST = re.compile(r"\*\*Know first:\*\*\s*(.*?)(?=\n\s*\n)", re.DOTALL)
TIME = re.compile(r"\*\*Time:\*\*\s*(\d+) minutes(?: to read, (\d+) for the exercises)?")
COURSE = re.compile(r"^\| (\w+ weeks)[^|\n]*\| chapters \| hand in \|\n\|[-|]+\|\n((?:\|.+\n)+)", re.MULTILINE)
ALL = re.compile(r"\b(both|all three|its exercises)\b")  # chapters of the week are handed in


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
    ability, first, time = (pattern.search(f"{page.box.text}\n\n") for pattern in (ABILITY, FIRST, TIME))
    if not (ability and first and time):
        raise ValueError(f"{page.path.name}: the box at the head lacks its goal, what to know first, or its time")
    goal, minutes = one_line(ability[1]), int(time[1]) + int(time[2] or 0)
    return (
        f"- **[{page.title}]({page.path.name})** ({minutes} minutes; {_counted(exercises_of(page))}). "
        f"*Goal:* {goal} *Know first:* {one_line(first[1])}"
    )


def courses(root: Path) -> dict[str, list[tuple[str, str, int, int]]]:
    """Course → its weeks: chapters, what to hand in, minutes of the chapters, minutes of the exercises handed in."""
    pages = {path.stem: read_page(path) for path in pages_in_order(root)}
    found: dict[str, list[tuple[str, str, int, int]]] = {}
    for name, rows in COURSE.findall((root / "book" / "for_instructors.md").read_text("utf-8")):
        for row in rows.splitlines():
            _, _, chapters, work, _ = map(str.strip, row.split("|"))
            names = re.findall(r"\((\w+)\.md\)", chapters)
            due = [one for one in names if ALL.search(work) or re.search(rf"\b{one}\b", work)]
            each = {one: sum(exercise.minutes for exercise in exercises_of(pages[one])) for one in due}
            reading = sum(int(time[1]) for one in names if (time := TIME.search(pages[one].box.text)))
            exercises = sum(each[one] for one in due)
            found.setdefault(name, []).append((chapters, work, reading, exercises))
    return found


def hours(root: Path) -> str:
    """The minutes of each week of each course, in a line for each."""
    lines = ["**Minutes a week**, to read + for the exercises handed in, without lectures and projects:", ""]
    for name, weeks in courses(root).items():
        total = sum(reading + exercises for _, _, reading, exercises in weeks)
        each = ", ".join(f"{reading} + {exercises}" for _, _, reading, exercises in weeks)
        lines.append(f"- *{name}*, {total / 60:.0f} hours: {each}.")
    return "\n".join(lines)


def syllabus(root: Path, course: str, site: str) -> str:
    """A page on a course for an instructor to adapt and to hand out."""
    weeks = courses(root)[course]
    has_projects = any("project" in chapters + work for chapters, work, _, _ in weeks)

    def linked(chapters: str) -> str:
        return re.sub(r"\((\w+)\.md\)", rf"({site}\1.html)", chapters)

    return filled("syllabus.md", course=course, weeks=weeks, has_projects=has_projects, linked=linked, site=site)


def markdown(root: Path) -> str:
    """The plan: a heading in bold for each part, an item for each chapter, and the sums."""
    lines: list[str] = []
    everything: list[Exercise] = []
    for caption, pages in parts(root):
        lines += ["", f"**{caption}.**", "", *map(entry, pages)]
        everything += [exercise for page in pages for exercise in exercises_of(page)]
    return "\n".join([f"All together: {_counted(everything)}.", "", hours(root), *lines])
