"""What a class got right and wrong: a page for the instructor, in Markdown."""

import html
import re
from collections import Counter
from statistics import fmean, median

from workshop.course.grading.counted import counted
from workshop.course.grading.exercise_parts import exercise_of
from workshop.course.grading.marks import Marks
from workshop.course.grading.rebuild import CHANGED, OTHER_NUMBERS

COMMONEST = 3
SHOWN = 200  # letters of a message
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
CHEATING = """\
The checks run outside the students' processes, on plain copies of the answers. What the library and PyTorch have
ready made refuses where an exercise asks for the student's own. A determined student can still copy it, and the
chapter's solutions are public in the book's repository. Ask about answers that surprise you."""


def alike(message: str) -> str:
    """A message without its numbers, which differ from student to student."""
    return NUMBER.sub("…", message.splitlines()[0] if message else "nothing")[:SHOWN]


def commonest(messages: list[str]) -> list[tuple[str, int]]:
    """The commonest kinds of messages, each as one of them said it, and how many are of that kind."""
    kinds = Counter(map(alike, messages)).most_common(COMMONEST)
    first = {alike(one): one.split("\n")[0][:SHOWN] or "nothing" for one in reversed(messages)}
    return [(html.escape(first[kind], quote=False), count) for kind, count in kinds]


def _exercises(graded: list[Marks]) -> str:
    """The mean of each exercise's points over the class."""
    rows = ["| exercise | mean points | of |", "|---|---|---|"]
    for label in graded[0].sums:
        mean = fmean(one.sums[label] for one in graded)
        of = sum(points for part, points in graded[0].maximum.items() if exercise_of(part) == label)
        rows.append(f"| {graded[0].title(label)} | {mean:.1f} | {of:g} |")
    return "\n".join(rows)


def changed_by_many(marks: list[Marks]) -> tuple[list[str], set[str]]:
    """Cells that differ in more than half of a class: a line on each, and the events for which it stands.

    So many students edit no check: they were handed another version of it, or numbers from another key.
    """
    said = Counter(event for one in marks for event in one.events if event.endswith((CHANGED, OTHER_NUMBERS)))
    often = {event: count for event, count in said.items() if 2 * count > len(marks) > 1}
    lines = [f"{e}, in {n} of {len(marks)} notebooks: from another version or key?" for e, n in often.items()]
    return lines, {*often}


def report(chapter: str, marks: list[Marks], lines: list[str], absent: dict[str, str] | None = None) -> str:
    """Mean and spread, each exercise's points, each part's passes, the commonest messages, what happened to whom."""
    graded = [one for one in marks if not one.error]
    totals = sorted(one.total for one in graded if isinstance(one.total, float))
    parts = [f"# {chapter}: {counted(len(marks), 'submission')}"]
    if totals:
        parts.append(
            f"Points: least {totals[0]:g}, middle {median(totals):g}, most {totals[-1]:g}, of {graded[0].of:g}."
        )
    if waiting := sum(len(one.unmarked) for one in marks):
        parts.append(f"**{counted(waiting, 'written answer')} to mark by hand.**")
    if to_confirm := sum(len(one.waiting) - len(one.unmarked) for one in marks):
        parts.append(f"**{counted(to_confirm, 'mark')} by hand of checks to confirm.**")
    if graded:
        parts.append(_exercises(graded))
    table = ["| part | passed | of |", "|---|---|---|"]
    messages = []
    for part in marks[0].maximum:
        passed = sum(one.points[part] == one.maximum[part] for one in graded)
        table.append(f"| {part} | {passed} | {len(graded)} |")
        said = [one.outcomes[part] for one in graded if part in one.outcomes and not one.points[part]]
        messages += [f"- {part}, {count} ×: {message}" for message, count in commonest(said)]
    parts.append("\n".join(table))
    if messages:
        parts += ["## The commonest messages, each as one student got it", "\n".join(messages)]
    if absent is not None:
        lines_of_absent = (f"- {name}: {files}" if files else f"- {name}" for name, files in absent.items())
        nothing = "\n".join(lines_of_absent) or "There is one of everybody on the class list."
        parts += [f"## No notebook of this chapter: {len(absent)}", nothing]
    lines_of_many, often = changed_by_many(marks)
    happened = [f"- {line}" for line in lines_of_many]
    happened += [f"- {one.submission.student}: {event}" for one in marks for event in one.notes if event not in often]
    happened += [f"- {one.submission.student}: THE GRADER FAILED: {one.error[-1500:]}" for one in marks if one.error]
    happened += [f"- {line}" for line in lines]
    if happened:
        parts += ["## What happened", "\n".join(happened)]
    return "\n\n".join([*parts, CHEATING]) + "\n"
