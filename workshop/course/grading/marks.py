"""From the gradebook to files for course systems: one generic, one for Moodle, one for Canvas."""

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workshop.course.grading.exercise_parts import exercise_of, is_written, part_title
from workshop.course.grading.submissions import Submission, safe

MOODLE = ["Identifier", "Full name", "Grade", "Maximum Grade", "Last modified (grade)", "Feedback comments"]
CANVAS = ["Student", "ID", "SIS Login ID", "Section"]
NO_MARK = "no mark: the grader failed on this submission, see the report"


@dataclass
class Marks:
    """The points of one submission."""

    submission: Submission
    points: dict[str, float]  # graded cell → points, with those given by hand
    maximum: dict[str, float]
    waiting: list[str] = field(default_factory=list)  # what nobody has marked, or not since it changed
    outcomes: dict[str, str] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    error: str = ""
    titles: dict[str, str] = field(default_factory=dict)  # exercise → its number and title
    written: dict[str, str] = field(default_factory=dict)  # written answer → the student's text, for other graders

    @property
    def total(self) -> float | str:
        """The points that count; nothing where the grader failed, for a 0 would look like a mark."""
        return "" if self.error else round(sum(self.points.values()), 2)

    @property
    def sums(self) -> dict[str, float]:
        """Exercise → its points."""
        together = dict.fromkeys(map(exercise_of, self.maximum), 0.0)
        for part, points in self.points.items():
            together[exercise_of(part)] += points
        return together

    def title(self, part: str) -> str:
        return part_title(part, self.titles)

    @property
    def of(self) -> float:
        return sum(self.maximum.values())

    @property
    def unmarked(self) -> list[str]:
        """The written answers that wait."""
        return [name for name in self.waiting if is_written(name)]

    @property
    def comment(self) -> str:
        """One cell for the course system: what is missing, and where to read more."""
        if self.error:
            return NO_MARK
        less = [name for name in self.outcomes if self.points[name] < self.maximum[name]]
        lost = [f"{self.title(name)}: {self.outcomes[name]}" for name in less]
        to_confirm = len(self.waiting) - len(self.unmarked)
        waiting = [f"{len(self.unmarked)} written answers are not marked yet"] if self.unmarked else []
        waiting += [f"{to_confirm} marks by hand of checks are to be confirmed"] if to_confirm else []
        return "; ".join([*self.events, *waiting, *lost])[:2000]


def marks_of(book: Any, submission: Submission, record: dict[str, Any], titles: dict[str, str]) -> Marks:
    """The points of a submission, as the gradebook has them."""
    grades = book.find_submission_notebook(submission.chapter, submission.chapter, submission.student).grades
    return Marks(
        submission,
        {grade.name: float(grade.score or 0) for grade in grades},
        {grade.name: float(grade.max_score) for grade in grades},
        sorted(grade.name for grade in grades if grade.needs_manual_grade),
        record["outcomes"],
        record["events"],
        record["error"],
        titles,
    )


def of_absent(student: str, left_out: str, like: Marks) -> Marks:
    """No points for who handed in nothing, in the form of another's marks.

    Args:
        left_out: what is known of files that may be this student's.
    """
    number = student if student.isdecimal() else ""  # in Moodle or in Canvas: each table reads its own
    chapter = like.submission.chapter
    submission = Submission(Path(), safe(student), chapter, student, moodle=number, canvas=number, listed=student)
    events = [f"no notebook; {left_out}" if left_out else "no notebook"]
    return Marks(submission, dict.fromkeys(like.maximum, 0.0), like.maximum, events=events, titles=like.titles)


def cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _write(path: Path, rows: list[list[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[cell(x) if isinstance(x, str) else x for x in row] for row in rows])


def write_generic(path: Path, marks: list[Marks]) -> None:
    """Each student in a row: total, each exercise's sum and parts, what is not marked yet, what happened."""
    parts = list(dict.fromkeys(name for one in marks for name in (*one.sums, *one.maximum)))
    parts.sort(key=lambda name: [*marks[0].sums].index(exercise_of(name)))
    head = ["student", "name", "points", "of"]
    rows: list[list[object]] = [[*head, *parts, "not marked yet", "notes"]]
    for one in marks:
        points = ["" if one.error else (one.sums | one.points).get(part, "") for part in parts]
        notes = "; ".join([*one.events, *([NO_MARK] if one.error else [])])
        names = [one.submission.student, one.submission.name]
        rows.append([*names, one.total, one.of, *points, " ".join(one.waiting), notes])
    _write(path, rows)


def write_moodle(path: Path, marks: list[Marks]) -> None:
    """Moodle's grading worksheet: Assignment → Submissions → Upload grading worksheet."""
    rows: list[list[object]] = [[*MOODLE]]
    for one in marks:
        identifier = f"Participant {one.submission.moodle}" if one.submission.moodle else one.submission.student
        name = one.submission.name or one.submission.student
        rows.append([identifier, name, one.total, one.of, "", one.comment])
    _write(path, rows)


def write_canvas(path: Path, marks: list[Marks], title: str) -> None:
    """Canvas: Gradebook → Import. Rename the last column to the assignment as your course has it."""
    rows: list[list[object]] = [[*CANVAS, title], ["    Points Possible", "", "", "", marks[0].of]]
    for one in marks:
        name = one.submission.name or one.submission.student
        login = "" if one.submission.canvas else one.submission.student
        rows.append([name, one.submission.canvas, login, "", one.total])
    _write(path, rows)
