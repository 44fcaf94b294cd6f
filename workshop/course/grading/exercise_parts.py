"""The parts of an exercise in nbgrader's gradebook: LABEL-check and LABEL-hidden, or LABEL for a written answer.

Of a project they are its tests; test_3_… belongs to its task 3.
"""

import re
import symtable
from typing import Any

PARTS = {"-check": "check", "-hidden": "further checks"}
BEGIN, END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"  # nbgrader's own, in the cell of further checks
TEST = re.compile(r"test_(\d+)_")
MAGIC = re.compile(r"^(\s*)[%!](?!=).*$", re.MULTILINE)  # but not a comparison that begins a line
HEADING = re.compile(r"## (.+)")


def exercise_of(part: str) -> str:
    """The label of the exercise, or of the project's task, to which a part belongs."""
    if test := TEST.match(part):
        return f"task {test[1]}"
    return next((part.removesuffix(ending) for ending in PARTS if part.endswith(ending)), part)


def plain_python(source: str) -> str:
    """The source with the lines that only IPython understands emptied."""
    return MAGIC.sub(r"\1pass", source)


def bound(source: str) -> set[str]:
    """The names that a cell binds for the cells after it."""
    top = symtable.symtable(plain_python(source), "cell", "exec")
    return {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}


def is_written(part: str) -> bool:
    """Whether a part is a written answer, which people mark, and no check."""
    return exercise_of(part) == part


def words_of(part: str) -> str:
    """Which check of its exercise a part is, in words; nothing for a whole exercise."""
    return next((words for ending, words in PARTS.items() if part.endswith(ending)), "")


def titles(release: Any) -> dict[str, str]:
    """Exercise → its number and title, as the heading of its statement in the assignment says them."""
    labels = {exercise_of(cell.metadata.get("nbgrader", {}).get("grade_id", "")) for cell in release.cells} - {""}
    found = {}
    for cell in release.cells:
        label = re.sub(r"-text-\d+$", "", cell.get("id", ""))
        if label in labels and label not in found and (heading := HEADING.match(cell.source)):
            found[label] = heading[1]
    return found


def told(cell: Any) -> dict[str, Any]:
    """What a checker must know of a cell; its role is `check`, `setup` (a cell of the chapter's), `numbers` (drawn for
    the student) or `student`."""
    nbgrader, book = cell.metadata.get("nbgrader", {}), cell.metadata.get("book", {})
    is_check = bool(nbgrader.get("grade") and not nbgrader.get("solution"))
    other = "numbers" if book.get("drawn") else "setup" if nbgrader.get("locked") else "student"
    return {
        "id": cell.get("id", ""),
        "role": "check" if is_check else other,
        "name": nbgrader.get("grade_id") or "a cell of the student's own",
        "source": book.get("drawn") or cell.source,  # numbers are only shown in the notebook
        "names": list(book.get("names" if is_check else "binds", [])),
        "without": list(book.get("without", [])),
    }
