"""From the gradebook to files for course systems: one generic, one for Excel, one for Moodle, one for Canvas."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workshop.course.grading.counted import counted
from workshop.course.grading.exercise_parts import exercise_of, is_written, words_of
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
    changed: dict[str, str] = field(default_factory=dict)  # check → what a person gave instead, and why
    unseen: set[str] = field(default_factory=set)  # written answers that nobody has marked, not even in another version
    comments: dict[str, str] = field(default_factory=dict)  # answer → what a person wrote beside it

    @property
    def total(self) -> float | str:
        """The points that count; nothing where the grader failed, for a 0 would look like a mark."""
        return "" if self.error else round(sum(self.points.values()), 2)

    @property
    def parts(self) -> dict[str, list[str]]:
        """Exercise → its parts."""
        found: dict[str, list[str]] = {}
        for part in self.maximum:
            found.setdefault(exercise_of(part), []).append(part)
        return found

    @property
    def columns(self) -> list[str]:
        """Each exercise before its parts."""
        return list(dict.fromkeys(name for label, own in self.parts.items() for name in (label, *own)))

    @property
    def shown(self) -> dict[str, float | str]:
        """Exercises and parts → their points, as people see them: no 0 where nobody has marked."""
        sums = {label: sum(self.points[part] for part in parts) for label, parts in self.parts.items()}
        return {} if self.error else {**sums, **self.points, **dict.fromkeys(self.unseen, "–")}

    def title(self, part: str) -> str:
        """A part as a student knows it, such as `Exercise 2: Write attention, further checks`."""
        exercise = exercise_of(part)
        return ", ".join(filter(None, [self.titles.get(exercise, exercise), words_of(part)]))

    def worth(self, parts: Iterable[str]) -> float:
        """The most that these parts can earn."""
        return sum(self.maximum[part] for part in parts)

    @property
    def of(self) -> float:
        return self.worth(self.maximum)

    @property
    def unmarked(self) -> list[str]:
        """The written answers that wait."""
        return [name for name in self.waiting if is_written(name)]

    @property
    def to_confirm(self) -> list[str]:
        """The checks whose marks by hand are of another version."""
        return [name for name in self.waiting if not is_written(name)]

    @property
    def notes(self) -> list[str]:
        """What happened: as the class list or the course system says, while it was graded, and by hand."""
        note = [self.submission.note] if self.submission.note else []
        return [*note, *self.events, *(f"{self.title(name)}: {words}" for name, words in self.changed.items())]

    @property
    def comment(self) -> str:
        """One cell for the course system: what is missing, and where to read more."""
        if self.error:
            return NO_MARK
        less = [name for name in self.outcomes if self.points[name] < self.maximum[name] and name not in self.changed]
        lost = [f"{self.title(name)}: {self.outcomes[name]}" for name in less]
        waiting = [f"{counted(len(self.unmarked), 'written answer')} not marked yet"] if self.unmarked else []
        confirmed = f"{counted(len(self.to_confirm), 'mark')} by hand of checks to be confirmed"
        waiting += [confirmed] if self.to_confirm else []
        return "; ".join([*self.notes, *waiting, *lost])[:2000]


def changed_by_hand(notebook: Any) -> dict[str, str]:
    """Check → the points that a person gave in its place, with the comment on its exercise as the reason."""
    reasons = {
        comment.name: comment.manual_comment.strip().rstrip(".")
        for comment in notebook.comments
        if comment.manual_comment
    }
    return {
        grade.name: f"a person gave {grade.manual_score:g} of {grade.max_score:g}, the check had given "
        f"{grade.auto_score or 0:g}: {reasons.get(exercise_of(grade.name), 'no reason is noted')}"
        for grade in notebook.grades
        if not is_written(grade.name) and grade.manual_score not in (None, grade.auto_score or 0)
    }


def marks_of(book: Any, submission: Submission, record: dict[str, Any], titles: dict[str, str]) -> Marks:
    """The points of a submission, as the gradebook has them."""
    notebook = book.find_submission_notebook(submission.chapter, submission.chapter, submission.student)
    grades = notebook.grades
    unseen = [one for one in grades if one.needs_manual_grade and one.manual_score is None]
    return Marks(
        submission,
        {grade.name: float(grade.score or 0) for grade in grades},
        {grade.name: float(grade.max_score) for grade in grades},
        sorted(grade.name for grade in grades if grade.needs_manual_grade),
        record["outcomes"],
        record["events"],
        record["error"],
        titles,
        changed=changed_by_hand(notebook),
        unseen={one.name for one in unseen if is_written(one.name)},
        comments={one.name: one.manual_comment for one in notebook.comments if one.manual_comment},
    )


def of_absent(student: str, left_out: str, like: Marks, note: str = "") -> Marks:
    """No points for who handed in nothing, in the form of another's marks.

    Args:
        left_out: what is known of files that may be this student's.
        note: what the class list says of the student.
    """
    number = student if student.isdecimal() else ""  # in Moodle or in Canvas: each table reads its own
    chapter = like.submission.chapter
    who = {"moodle": number, "canvas": number, "listed": student, "note": note}
    submission = Submission(Path(), safe(student), chapter, getattr(student, "name", "") or student, **who)
    events = [f"no notebook; {left_out}" if left_out else "no notebook"]
    return Marks(submission, dict.fromkeys(like.maximum, 0.0), like.maximum, events=events, titles=like.titles)


def cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def as_csv(rows: list[list[object]], delimiter: str = ",") -> str:
    """A table as CSV."""
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter).writerows(
        [[cell(x) if isinstance(x, str) else x for x in row] for row in rows]
    )
    return file.getvalue()


def for_excel(rows: list[list[object]]) -> bytes:
    """A table that Excel opens in columns and with all letters, in any language: UTF-16 with its mark, and tabs."""
    return as_csv(rows, delimiter="\t").encode("utf-16")


def generic(marks: list[Marks]) -> list[list[object]]:
    """Each student in a row: total, each exercise's sum and parts, what is not marked yet, what happened."""
    parts = list(dict.fromkeys(name for one in marks for name in one.columns))
    head = ["student", "name", "points", "of"]
    rows: list[list[object]] = [[*head, *parts, "not marked yet", "notes"]]
    for one in marks:
        points = [one.shown.get(part, "") for part in parts]
        notes = "; ".join([*one.notes, *([NO_MARK] if one.error else [])])
        names = [one.submission.student, one.submission.name]
        rows.append([*names, one.total, one.of, *points, " ".join(one.waiting), notes])
    return rows


def moodle(marks: list[Marks]) -> list[list[object]]:
    """Moodle's grading worksheet: Assignment → Submissions → Upload grading worksheet."""
    rows: list[list[object]] = [[*MOODLE]]
    for one in marks:
        identifier = f"Participant {one.submission.moodle}" if one.submission.moodle else one.submission.student
        name = one.submission.name or one.submission.student
        rows.append([identifier, name, one.total, one.of, "", one.comment])
    return rows


def canvas(marks: list[Marks], title: str) -> list[list[object]]:
    """Canvas: Gradebook → Import. Rename the last column to the assignment as your course has it."""
    rows: list[list[object]] = [[*CANVAS, title], ["    Points Possible", "", "", "", marks[0].of]]
    for one in marks:
        name = one.submission.name or one.submission.student
        login = "" if one.submission.canvas else one.submission.student
        rows.append([name, one.submission.canvas, login, "", one.total])
    return rows
