"""What a class got right and wrong: a page for the instructor, in Markdown."""

import html
import re
from collections import Counter
from statistics import fmean, median

from workshop.course.grading.counted import counted
from workshop.course.grading.marks import Marks
from workshop.course.grading.rebuild import CHANGED, OTHER_NUMBERS
from workshop.site.filled import filled

COMMONEST = 3
SHOWN = 200  # letters of a message
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def alike(message: str) -> str:
    """A message without its numbers, which differ from student to student."""
    return NUMBER.sub("…", message.splitlines()[0] if message else "nothing")[:SHOWN]


def commonest(messages: list[str]) -> list[tuple[str, int]]:
    """The commonest kinds of messages, each as one of them said it, and how many are of that kind."""
    kinds = Counter(map(alike, messages)).most_common(COMMONEST)
    first = {alike(one): one.split("\n")[0][:SHOWN] or "nothing" for one in reversed(messages)}
    # Between backticks Markdown would show an entity as it is written.
    return [(html.escape(first[kind].replace("`", "'"), quote=False), count) for kind, count in kinds]


def changed_by_many(marks: list[Marks]) -> tuple[list[str], set[str]]:
    """Cells that differ in more than half of a class: a line on each, and the events for which it stands.

    So many students edit no check: they were handed another version of it, or numbers from another key.
    """
    said = Counter(event for one in marks for event in one.events if event.endswith((CHANGED, OTHER_NUMBERS)))
    often = {event: count for event, count in said.items() if 2 * count > len(marks) > 1}
    why = "from another version, key or class list?"
    lines = [f"{event}, in {count} of {len(marks)} notebooks: {why}" for event, count in often.items()]
    return lines, {*often}


def report(chapter: str, marks: list[Marks], lines: list[str], absent: dict[str, str] | None = None) -> str:
    """Mean and spread, each exercise's points, each part's passes, the commonest messages, what happened to whom."""
    graded = [one for one in marks if not one.error]
    messages = []
    for part in marks[0].maximum:
        said = [one.outcomes[part] for one in graded if part in one.outcomes and not one.points[part]]
        messages += [(part, *message) for message in commonest(said)]
    lines_of_many, often = changed_by_many(marks)
    events = [f"{one.submission.student}: {event}" for one in marks for event in one.notes if event not in often]
    failed = [f"{one.submission.student}: THE GRADER FAILED: {one.error[-1500:]}" for one in marks if one.error]
    return filled(
        "report.md",
        chapter=chapter,
        marks=marks,
        graded=graded,
        totals=sorted(one.total for one in graded),
        marked=lambda name: [points for one in graded if (points := one.shown[name]) != "–"],
        fmean=fmean,
        messages=messages,
        absent=absent,
        happened=[*lines_of_many, *events, *failed, *lines],
        counted=counted,
        median=median,
    )
