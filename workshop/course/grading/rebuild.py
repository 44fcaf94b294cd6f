"""What a student handed in, put back into the assignment that was handed out: only answers are taken over.

nbgrader restores the source of a changed test, but gives up on a deleted or renamed one. Here every cell of the
assignment comes from the release; from the submission come the answers, found by nbgrader's id, by the cell's id, by
the names that they define or by their place, and the cells that the student added, which stay where they were.
"""

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import nbformat

from workshop.course.grading.exercise_parts import bound
from workshop.course.grading.submissions import BASE64, MAX_MB, readable

MAX_MB_ANSWERS = 20  # of what is read in a notebook: all but its outputs
PLAIN_TYPES = {"code", "markdown"}
CHANGED = "had been changed; the original was put back"
UNTOUCHED = "Not answered: the cell for it is as it was handed out."
UNREAD = "Not read: no answer could be taken from your file."
OTHER_NUMBERS = "not this student's numbers (changed, copied, or from another key or none); the right ones were put in"
PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp"}


class Unreadable(Exception):
    """A submission that is no notebook of this assignment; the message says why."""


def read(path: Path) -> Any:
    """The notebook in a file.

    Raises:
        Unreadable: if it is none.
    """
    size = path.stat().st_size
    if size == 0:
        raise Unreadable("the file is empty")
    if size > MAX_MB << 20:
        most = f"up to {MAX_MB} MB are read, {MAX_MB_ANSWERS} MB of them beside the outputs"
        remedy = "clear the outputs (Edit > Clear Outputs of All Cells) and grade again"
        raise Unreadable(f"the file has {size >> 20} MB; {most}: {remedy}")
    try:
        parsed = _without_outputs(json.loads(path.read_text("utf-8-sig")))  # a mark of byte order may come first
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the file is not valid JSON: {str(error)[:200]}") from None
    # nbformat takes up to two hundred bytes of memory for each of the file.
    if size > MAX_MB_ANSWERS << 20 and (length := len(json.dumps(parsed))) > MAX_MB_ANSWERS << 20:
        what = f"its text, metadata or pasted pictures have {length >> 20} MB without outputs"
        raise Unreadable(f"{what}; up to {MAX_MB_ANSWERS} MB are read: take pasted pictures out and grade again")
    try:
        notebook = nbformat.convert(nbformat.from_dict(parsed), 4)
        cells = [cell for cell in notebook.cells if cell.get("cell_type") in PLAIN_TYPES]
        notebook.cells = [_plain(cell) for cell in cells]
    except Exception as error:  # whatever a hostile file makes nbformat raise
        raise Unreadable(f"the file is JSON, but no notebook: {type(error).__name__}") from None
    if not notebook.cells:
        raise Unreadable("the notebook has no cells")
    return notebook


def _without_outputs(parsed: Any) -> Any:
    """A notebook without what its cells showed when it was saved: pictures make that long, and nothing reads it."""
    cells = parsed.get("cells") if isinstance(parsed, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        if isinstance(cell, dict) and "outputs" in cell:
            cell["outputs"] = []
    return parsed


def _plain(cell: Any) -> Any:
    """A cell with its type, source, names and pasted pictures, and nothing else that a file may bring."""
    source = cell.get("source", "")
    source = readable("".join(map(str, source)) if isinstance(source, list) else str(source))
    make = nbformat.v4.new_code_cell if cell["cell_type"] == "code" else nbformat.v4.new_markdown_cell
    plain = make(source)
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    plain["names"] = [str(name) for name in (grade_id, cell.get("id")) if name]
    if cell["cell_type"] == "markdown" and (pictures := _pictures(cell.get("attachments"))):
        plain["attachments"] = pictures
    return plain


def _pictures(attachments: Any) -> dict[str, dict[str, str]]:
    """The pictures that were pasted into a cell: name → type → base64."""
    found = {}
    for name, kinds in (attachments if isinstance(attachments, dict) else {}).items():
        held = kinds.items() if isinstance(kinds, dict) else ()
        if pictures := {
            kind: data for kind, data in held if kind in PICTURES and isinstance(data, str) and BASE64.fullmatch(data)
        }:
            found[readable(str(name))] = pictures
    return found


def ids(notebook: Any) -> set[str]:
    """The nbgrader ids and cell ids in a notebook that was read."""
    return {name for cell in notebook.cells for name in cell["names"]}


def _grade_id(cell: Any) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id", ""))


def _is_answer(cell: Any) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def _defines(source: str) -> set[str]:
    """The names that code binds at its top level; none if it cannot be parsed."""
    try:
        return bound(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def _asked(release: Any) -> dict[str, set[str]]:
    """Answer → the names that its checks read from it."""
    books = [cell.metadata.get("book", {}) for cell in release.cells]
    return {book["answer"]: set(book["names"]) for book in books if book.get("names")}


def _places(release: Any, submitted: Any) -> dict[int, int]:
    """Place of a submitted cell → place of the release's cell that it stands for; each of the latter once."""
    known: dict[str, int] = {}
    for place, cell in enumerate(release.cells):
        known[_grade_id(cell)] = place
        known.setdefault(str(cell.get("id", "")), place)
    asked = _asked(release)
    found: dict[int, int] = {}

    def claim(number: int, place: int | None) -> None:
        same_type = place is not None and release.cells[place].cell_type == submitted.cells[number].cell_type
        if place is not None and same_type and number not in found and place not in found.values():
            found[number] = place

    for number, cell in enumerate(submitted.cells):
        claim(number, next((known[name] for name in cell["names"] if name in known), None))
    for place, cell in enumerate(release.cells):  # locked cells without their names: by their source
        for number, other in enumerate(submitted.cells):
            if cell.source == other.source and not _is_answer(cell):
                claim(number, place)
    for place, cell in enumerate(release.cells):  # answers without their names: by what they define
        if _is_answer(cell) and (names := asked.get(_grade_id(cell))):
            for number, other in enumerate(submitted.cells):
                if names <= _defines(other.source):
                    claim(number, place)
    for place, cell in enumerate(release.cells):  # what is left: by standing behind the exercise's text
        before = next((number for number, other in found.items() if other == place - 1), None)
        if _is_answer(cell) and before is not None and before + 1 < len(submitted.cells):
            claim(before + 1, place)
    return found


def _take_over(answer: Any, cell: Any, after: str = "") -> None:
    """Put a student's cell into the place of an answer, or behind what stands there."""
    answer.source = f"{answer.source}{after}{cell.source}" if after else cell.source
    if cell.get("attachments"):
        answer["attachments"] = {**answer.get("attachments", {}), **cell["attachments"]}


def _answers_from_below(release: Any, notebook: Any, added: dict[int, list[Any]]) -> list[str]:
    """Move text below an unanswered written exercise into its answer cell, so that it is marked. Returns notes."""
    notes = []
    for place, cell in enumerate(release.cells):
        if _is_answer(cell) and cell.cell_type == "markdown" and notebook.cells[place].source == cell.source:
            below = list(itertools.takewhile(lambda own: own.cell_type == "markdown", added.get(place, [])))
            for own in below:
                _take_over(notebook.cells[place], own, "\n\n")
            if below:
                del added[place][: len(below)]
                notes.append(f"{_grade_id(cell)}: was answered in a cell of its own below; that text was taken over")
    return notes


def _put_back(release: Any, notebook: Any, kept: set[int], added: dict[int, list[Any]]) -> list[str]:
    """Note each missing cell; a starter is left empty where it would undo what the student defines above it."""
    asked, notes = _asked(release), []
    for place, cell in enumerate(release.cells):
        if place not in kept and "nbgrader" in cell.metadata:
            above = [own for anchor, cells in added.items() if anchor < place for own in cells]
            above += [notebook.cells[other] for other in kept if other < place and _is_answer(release.cells[other])]
            defined = set().union(*(_defines(one.source) for one in above if one.cell_type == "code"))
            what = "the starter was put back" if _is_answer(cell) else "the original was put back"
            if (names := asked.get(_grade_id(cell), set())) and names <= defined:
                notebook.cells[place].source, what = "", f"a cell above it defines {', '.join(sorted(names))}"
            notes.append(f"{_grade_id(cell)}: was missing; {what}")
    return notes


def mark_unanswered(release: Any, notebook: Any, why: str = UNTOUCHED) -> None:
    """Let the checks of untouched answers know it: their message is then why, not what an empty cell raises."""
    pairs = zip(release.cells, notebook.cells, strict=True)
    untouched = {_grade_id(was) for was, now in pairs if _is_answer(was) and was.source == now.source}
    for cell in notebook.cells:
        if cell.metadata.get("book", {}).get("answer") in untouched:
            cell.metadata["unanswered"] = why


def rebuild(release: Any, submitted: Any) -> tuple[Any, list[str]]:
    """The assignment with the student's answers and own cells, and what had to be mended."""
    places = _places(release, submitted)
    notebook, notes = copy.deepcopy(release), []
    foreign: set[str] = set()  # exercises with numbers of another student's, which stand in the check, too
    added: dict[int, list[Any]] = {}
    anchor = -1
    for number, cell in enumerate(submitted.cells):
        if number not in places:
            own = {key: value for key, value in cell.items() if key != "names"}
            added.setdefault(anchor, []).append(nbformat.from_dict(own))
            continue
        anchor = places[number]
        original = notebook.cells[anchor]
        if _is_answer(original):
            _take_over(original, cell)
        elif original.source.strip() != cell.source.strip() and original.cell_type == "code":
            book = original.metadata.get("book", {})
            foreign |= {book["numbers"]} if "numbers" in book else set()
            if book.get("answer") not in foreign:
                notes.append(f"{_grade_id(original)}: {OTHER_NUMBERS if 'numbers' in book else CHANGED}")
    notes += _put_back(release, notebook, {*places.values()}, added)
    notes += _answers_from_below(release, notebook, added)
    mark_unanswered(release, notebook)
    cells = list(added.get(-1, []))
    for place, cell in enumerate(notebook.cells):
        cells += [cell, *added.get(place, [])]
    for number, cell in enumerate(cells):
        if "nbgrader" not in cell.metadata:
            cell["id"] = f"own-{number}"
    notebook.cells = cells
    return notebook, notes
