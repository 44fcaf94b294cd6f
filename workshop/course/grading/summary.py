"""What a class got right and wrong: a page for the instructor, in Markdown."""

import re
from collections import Counter

from workshop.course.grading.marks import Marks

COMMONEST = 3
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
CHEATING = """\
The checks run outside the students' processes, on plain copies of the answers. A determined student can still call the
library's function where an exercise asks for the student's own, and the chapter's solutions are public in the book's
repository. Ask about answers that surprise you."""


def alike(message: str) -> str:
    """A message without its numbers, which differ from student to student."""
    return NUMBER.sub("…", message.splitlines()[0] if message else "nothing")[:200]


def report(chapter: str, marks: list[Marks], lines: list[str]) -> str:
    """Mean and spread, each exercise's passes and commonest messages, and what happened to whom."""
    graded = [one for one in marks if not one.error]
    totals = sorted(sum(one.points.values()) for one in graded)
    parts = [f"# {chapter}: {len(marks)} submissions"]
    if totals:
        middle = totals[len(totals) // 2]
        parts.append(f"Points: least {totals[0]:g}, middle {middle:g}, most {totals[-1]:g}, of {graded[0].of:g}.")
    if waiting := sum(len(one.waiting) for one in marks):
        parts.append(f"**{waiting} written answers wait to be marked by hand.**")
    table = ["| part | passed | of |", "|---|---|---|"]
    messages = []
    for part in marks[0].maximum:
        passed = sum(one.points[part] == one.maximum[part] for one in graded)
        table.append(f"| {part} | {passed} | {len(graded)} |")
        said = Counter(alike(one.outcomes[part]) for one in graded if part in one.outcomes and not one.points[part])
        messages += [f"- {part}, {count} ×: {message}" for message, count in said.most_common(COMMONEST)]
    parts.append("\n".join(table))
    if messages:
        parts += ["## The commonest messages", "\n".join(messages)]
    happened = [f"- {one.submission.student}: {event}" for one in marks for event in one.events]
    happened += [f"- {one.submission.student}: THE GRADER FAILED: {one.error[-1500:]}" for one in marks if one.error]
    happened += [f"- {line}" for line in lines]
    if happened:
        parts += ["## What happened", "\n".join(happened)]
    return "\n\n".join([*parts, CHEATING]) + "\n"
