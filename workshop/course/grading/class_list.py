"""The class list: a table (CSV) with the column `student`; of whom on it there is no notebook.

A student is named as in the table of marks, by full name (Moodle's downloads hold it, Canvas's do not), or by the
number in Moodle or Canvas. Upper and lower case are one. What stands in a column `notes`, such as an extension, comes
into the tables of marks. Moodle's grading worksheet is a class list, too: its column Status says how late a file came,
and until when the student had time.
"""

import csv
import io
import re
import unicodedata
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from workshop.course.grading.marks import MOODLE
from workshop.course.grading.submissions import Submission, readable, safe


def decoded(content: bytes) -> str:
    """The text of a table: UTF-8, or as an older Excel of Western Europe writes it."""
    try:
        text = content.decode("utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", "replace")
    return unicodedata.normalize("NFC", text)


def table(text: str) -> "csv.DictReader[str]":
    """The rows of a table, whichever of comma, semicolon and tab its first line has most of."""
    head = text.partition("\n")[0]
    return csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=head.count))


class Student(str):
    """A student as on the list, by number or name, with the full name that Moodle has beside the number."""

    name = ""


def read(path: Path) -> dict[str, str]:
    """Student, with a name where there is one → what a file notes of them.

    Raises:
        OSError: there is no file.
        ValueError: the column is missing, or a student stands there twice.
    """
    rows = table(decoded(path.read_bytes()))
    columns = [*(rows.fieldnames or [])]
    column = next((name for name in ("student", MOODLE[0]) if name in columns), "")
    if not column:
        raise ValueError(f"{path} needs the column student; it has: {', '.join(columns) or 'none'}")
    students: dict[str, str] = {}
    for row in rows:
        student = Student((row[column] or "").strip().removeprefix("Participant "))
        student.name = (row.get(MOODLE[1]) or "").strip()
        if student.casefold() in map(str.casefold, students):
            raise ValueError(
                f"{path}, line {rows.line_num}: {student} stands there twice (upper and lower case are one)"
            )
        if student:
            said = [part for part in (row.get("Status") or "").split(" - ") if re.search(r" late$|^Extension ", part)]
            students[student] = "; ".join(filter(None, [(row.get("notes") or "").strip(), *said]))
    return students


def with_students(students: dict[str, str], submissions: list[Submission]) -> list[Submission]:
    """The submissions with their students as on the list, where they are on it, and with what it notes.

    Raises:
        SystemExit: two submissions of a chapter match one student.
    """
    listed = {name.casefold(): student for student in students for name in (student, safe(student))}
    found: dict[object, Submission] = {}  # (chapter, student as on the list), or a file of nobody on it
    for one in submissions:
        names = (one.student, one.moodle, one.canvas, one.name)
        student = next((listed[name.casefold()] for name in names if name.casefold() in listed), "")
        whose = (one.chapter, student) if student else one.file
        if other := found.get(whose):
            files = f"{other.file.name} and {one.file.name}"
            raise SystemExit(readable(f"error: {files} both match {student!r} of the class list; name them by number"))
        note = "; ".join(filter(None, [one.note, students.get(student, "")]))
        found[whose] = replace(one, listed=student, note=note)
    return [*found.values()]


def _words(text: str) -> list[str]:
    """Words and numbers of a name, in lower case: emil-attention2 has emil, attention and 2."""
    return re.findall(r"[^\W\d_]+|\d+", unicodedata.normalize("NFC", text).casefold())


def _in_one(words: list[str]) -> set[str]:
    """The words of a name written as one: adalovelace, lovelaceada."""
    return {"".join(words[i:] + words[:i]) for i in range(len(words))}


def may_be(students: Iterable[str], file: Path) -> list[str]:
    """The students whose names stand in the path of a file, whatever stands beside them."""
    found = [{*_words(part)} for part in (*file.parts[:-1], file.stem)]
    named = [(student, _words(name)) for student in students for name in {student, getattr(student, "name", "")}]
    here = (who for who, own in named if own and any({*own} <= part or _in_one(own) & part for part in found))
    return [*dict.fromkeys(here)]


def absent(
    students: Iterable[str], submissions: list[Submission], chapter: str, lines: Iterable[str] = ()
) -> dict[str, str]:
    """Of whom there is no notebook of a chapter → those of the lines that are on a file which may be that student's.

    Args:
        submissions: with their students as on the list.
    """
    here = {one.listed for one in submissions if one.chapter == chapter}
    files = {line: Path(line.partition(": ")[0]) for line in lines}
    without = [student for student in students if student not in here]
    return {who: "; ".join(line for line, file in files.items() if may_be([who], file)) for who in without}
