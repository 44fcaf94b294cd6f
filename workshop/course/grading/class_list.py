"""The class list: a table (CSV) with the column `student`; of whom on it there is no notebook.

A student is named as in the table of marks, by full name (Moodle's downloads hold it, Canvas's do not), or by the
number in Moodle or Canvas. Upper and lower case are one.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from workshop.course.grading.submissions import Submission, readable, safe


def read(path: Path) -> list[str]:
    """The students in a file.

    Raises:
        ValueError: there is no file, it is not UTF-8, the column is missing, or a student stands there twice.
    """
    if not path.is_file():
        raise ValueError(f"there is no class list {path}: a table (CSV) with the column student")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8: save it as CSV UTF-8") from None
    table = csv.DictReader(io.StringIO(unicodedata.normalize("NFC", text), newline=""))
    if "student" not in (table.fieldnames or []):
        found = ", ".join(table.fieldnames or []) or "none"
        raise ValueError(f"{path} needs the column student, separated by commas; it has: {found}")
    students: list[str] = []
    for row in table:
        student = (row["student"] or "").strip().removeprefix("Participant ")
        if student.casefold() in map(str.casefold, students):
            raise ValueError(
                f"{path}, line {table.line_num}: {student} stands there twice (upper and lower case are one)"
            )
        students += [student] if student else []
    return students


def _matched(students: list[str], submissions: list[Submission]) -> dict[tuple[str, str], Submission]:
    """(chapter, student as on the list) → what that student handed in."""
    listed = {name.casefold(): student for student in students for name in (student, safe(student))}
    found: dict[tuple[str, str], Submission] = {}
    for one in submissions:
        names = (one.student, one.moodle, one.canvas, one.name)
        if student := next((listed[name.casefold()] for name in names if name.casefold() in listed), None):
            if other := found.get((one.chapter, student)):
                files = f"{other.file.name} and {one.file.name}"
                raise ValueError(readable(f"{files} both match {student!r} of the class list; name them by number"))
            found[one.chapter, student] = one
    return found


def _words(text: str) -> set[str]:
    """Words and numbers of a name, in lower case: emil-attention2 has emil, attention and 2."""
    return {*re.findall(r"[^\W\d_]+|\d+", unicodedata.normalize("NFC", text).casefold())}


def may_be(students: Iterable[str], file: Path) -> list[str]:
    """The students whose names stand in the path of a file, whatever stands beside them."""
    words = {student: _words(student) for student in students}
    found = [_words(part) for part in (*file.parts[:-1], file.stem)]
    return [student for student, own in words.items() if own and any(own <= part for part in found)]


def absent(
    students: list[str], submissions: list[Submission], chapter: str, left_out: Iterable[Path] = ()
) -> dict[str, str]:
    """Of whom there is no notebook of a chapter → the files that may be that student's."""
    matched = _matched(students, submissions)
    without = [student for student in students if (chapter, student) not in matched]
    of: dict[str, list[str]] = {student: [] for student in without}
    for path in sorted(left_out):
        for student in may_be(without, path):
            of[student].append(f"{path.name} was left out")
    for one in submissions:
        for student in may_be(without, Path(one.file.name)) if one.chapter == chapter and not one.listed else ():
            of[student].append(f"{one.file.name} may be this student's, marked as {one.student}")
    return {student: readable("; ".join(files)) for student, files in of.items()}


def with_students(students: list[str], submissions: list[Submission]) -> list[Submission]:
    """The submissions with their students as on the list, where they are on it.

    Raises:
        ValueError: two submissions of a chapter match one student.
    """
    student_of = {one.file: student for (_, student), one in _matched(students, submissions).items()}
    return [replace(one, listed=student_of.get(one.file, "")) for one in submissions]
