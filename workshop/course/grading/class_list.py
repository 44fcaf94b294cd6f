"""The class list: who handed in nothing, and what late days cost. A table (CSV) with these columns:

    student,handed_in
    ada,2026-12-02T08:15
    bob,

A student is named as in the table of marks, by full name, or by the number in Moodle or Canvas. The times are needed
with a due time alone. Each begun day after it is a late day. The first late days are free; each further one costs a
share of the points that the student earned.
"""

import csv
import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from workshop.course.grading.submissions import Late, Submission, readable, safe

COLUMNS = ("student", "handed_in")
ClassList = dict[str, datetime | None]  # student → time of handing in


@dataclass(frozen=True)
class LateRule:
    """When an exercise sheet is due, how many late days are free, and what each further one costs.

    Raises:
        ValueError: days below 0, or a share that is no percentage.
    """

    due: datetime
    free_days: int = 0
    percent_per_day: float = 10.0

    def __post_init__(self) -> None:
        if self.free_days < 0:
            raise ValueError(f"--late-days {self.free_days}: 0 free days is the least")
        if not 0 <= self.percent_per_day <= 100:
            raise ValueError(f"--per-day {self.percent_per_day:g}: give percent, from 0 to 100")

    def late(self, handed_in: datetime) -> Late:
        days = max(0, math.ceil((handed_in - self.due) / timedelta(days=1)))
        return Late(days, min(100.0, self.percent_per_day * max(0, days - self.free_days)))


def moment(text: str) -> datetime:
    """A time such as 2026-12-01T23:59, with or without a time zone.

    Raises:
        ValueError: text of another form.
    """
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is no time; write it as 2026-12-01T23:59") from None


def _row(path: Path, number: int, row: dict[str, str], due: datetime | None) -> datetime | None:
    """The time in a row of the table; none where no due time is given."""
    text = (row.get("handed_in") or "").strip()
    if due is None or not text:
        return None
    try:
        handed_in = moment(text)
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: {error}") from None
    if (handed_in.tzinfo is None) != (due.tzinfo is None):
        raise ValueError(f"{path}, line {number}: {text} and --due {due.isoformat()}: give both or none a time zone")
    return handed_in


def read(path: Path, due: datetime | None = None) -> ClassList:
    """The class list in a file.

    Raises:
        ValueError: a column is missing, a student stands there twice, or a time cannot be read.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        table = csv.DictReader(file)
        wanted = COLUMNS if due else COLUMNS[:1]
        if missing := [name for name in wanted if name not in (table.fieldnames or [])]:
            found = ", ".join(table.fieldnames or []) or "none"
            raise ValueError(f"{path} needs the column {' and '.join(missing)}, separated by commas; it has: {found}")
        students: ClassList = {}
        for row in table:
            if not (student := (row["student"] or "").strip().removeprefix("Participant ")):
                continue
            if student in students:
                raise ValueError(f"{path}, line {table.line_num}: {student} stands there twice")
            students[student] = _row(path, table.line_num, row, due)
    return students


def _matched(students: ClassList, submissions: list[Submission]) -> dict[tuple[str, str], Submission]:
    """(chapter, student as on the list) → what that student handed in."""
    listed = {name: student for student in students for name in (student, safe(student))}
    found: dict[tuple[str, str], Submission] = {}
    for one in submissions:
        names = (one.student, one.moodle, one.canvas, one.name)
        if student := next((listed[name] for name in names if name in listed), None):
            if other := found.get((one.chapter, student)):
                files = f"{other.file.name} and {one.file.name}"
                raise ValueError(readable(f"{files} both match {student!r} of the class list; name them by number"))
            found[one.chapter, student] = one
    return found


def absent(students: ClassList, submissions: list[Submission], chapter: str) -> list[str]:
    """Who handed in nothing for a chapter."""
    matched = _matched(students, submissions)
    return [student for student in students if (chapter, student) not in matched]


def timed(
    students: ClassList, submissions: list[Submission], rule: LateRule | None
) -> tuple[list[Submission], list[str]]:
    """The submissions with their students and late days; a line on each that the list or its times do not know.

    Raises:
        ValueError: two submissions of a chapter match one student.
    """
    student_of = {one.file: student for (_, student), one in _matched(students, submissions).items()}
    out, lines = [], []
    for one in submissions:
        student = student_of.get(one.file, "")
        handed_in = students.get(student)
        if not student:
            lines.append(f"{one.student}: not on the class list")
        elif rule and not handed_in:
            lines.append(f"{one.student}: no time of handing in on the class list; counted as in time")
        out.append(replace(one, listed=student, late=rule.late(handed_in) if rule and handed_in else one.late))
    return out, lines
