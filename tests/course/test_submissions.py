"""Before and after nbgrader: whose file it is, what is taken over from it, and what the course system gets."""

import csv
import io
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from workshop.course.grading.class_list import absent, may_be, with_students
from workshop.course.grading.class_list import read as read_class
from workshop.course.grading.counted import counted
from workshop.course.grading.exercise_parts import titles
from workshop.course.grading.marks import (
    NO_MARK,
    Marks,
    as_csv,
    canvas,
    changed_by_hand,
    for_excel,
    generic,
    marks_of,
    moodle,
    of_absent,
)
from workshop.course.grading.rebuild import CHANGED, Unreadable, ids, read, rebuild
from workshop.course.grading.submissions import MAX_MB, Submission, find, safe, texts
from workshop.course.grading.summary import alike, report

ONE_AND_MORE = re.compile(r"\b1 (points|marks|submissions|[a-z]+ answers)\b")
ADA_IN_MOODLE = "Ada Lovelace_77_assignsubmission_file"
CHAPTERS = {
    "attention": ["ex-attention-write"],
    "masks": ["ex-masks-bug"],
    "learning_rate": ["ex-rate"],
    "multi_head_attention": ["ex-heads"],
}


def notebook(*cells: Any) -> Any:
    return new_notebook(cells=list(cells))


def role(name: str, **flags: object) -> dict[str, object]:
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return {"nbgrader": {**plain, "grade_id": name, **flags}}


def assignment() -> Any:
    """A small assignment as it is handed out."""
    check = role("ex-f-check", grade=True, locked=True, points=1) | {"book": {"answer": "ex-f", "names": ["f"]}}
    return notebook(
        new_markdown_cell("# Exercises", id="introduction"),
        new_code_cell("import math", id="setup", metadata=role("setup", locked=True)),
        new_code_cell("def f(x):\n    ...", id="ex-f", metadata=role("ex-f", solution=True)),
        new_code_cell("assert f(1) == 2", id="ex-f-check", metadata=check),
        new_markdown_cell("*Here.*", id="ex-why", metadata=role("ex-why", grade=True, solution=True, points=2)),
    )


def submitted(tmp_path: Path, book: Any) -> Any:
    file = tmp_path / "in.ipynb"
    text = book if isinstance(book, str | bytes) else json.dumps(book)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(file)


def sources(book: Any) -> list[str]:
    return [cell.source for cell in book.cells]


# ── Finding ───────────────────────────────────────────────────────────────────────────────────────────────────


def put(folder: Path, name: str, label: str = "ex-attention-write") -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(notebook(new_code_cell("", metadata=role(label, solution=True)))), "utf-8")


@pytest.mark.parametrize(
    ("name", "student", "chapter", "page"),
    [
        ("submitted/ada/attention/attention.ipynb", "ada", "attention", "ada"),
        ("submitted/tim.ipynb", "tim", "attention", "tim"),
        ("Ada/Masks/masks.ipynb", "Ada", "masks", "Ada"),
        ("ada/attention.ipynb", "ada", "attention", "ada"),
        ("Ada Lovelace/Untitled.ipynb", "Ada Lovelace", "attention", "Ada Lovelace"),
        ("ada.ipynb", "ada", "attention", "ada"),
        ("ada (1)/attention.ipynb", "ada", "attention", "ada (1)"),
        ("ada_attention (1).ipynb", "ada", "attention", "ada_attention (1)"),
        ("ada_attention-1.ipynb", "ada", "attention", "ada_attention-1"),
        ("ada_attention_final.ipynb", "ada", "attention", "ada_attention_final"),
        ("Copy of ada_attention.ipynb", "ada", "attention", "Copy of ada_attention"),
        ("ada_attention - Copy.ipynb", "ada", "attention", "ada_attention - Copy"),
        ("group-1.ipynb", "group-1", "attention", "group-1"),
        ("ada_b__draft 2.ipynb", "ada_b", "attention", "ada_b__draft 2"),
        ("gus__week5_attention.ipynb", "gus", "attention", "gus__week5_attention"),
        ("lovelaceada_1234_56_attention.ipynb", "lovelaceada-1234", "attention", "lovelaceada_1234_56_attention"),
        ("lovelaceada_LATE_1234_56_x-1.ipynb", "lovelaceada-1234", "attention", "lovelaceada_LATE_1234_56_x-1"),
        (f"{ADA_IN_MOODLE}_x.ipynb", "Ada Lovelace 77", "attention", f"{ADA_IN_MOODLE}_x"),
        (f"{ADA_IN_MOODLE}/mine.ipynb", "Ada Lovelace 77", "attention", f"{ADA_IN_MOODLE}_attention"),
        (f"{ADA_IN_MOODLE}_/week3/mine.ipynb", "Ada Lovelace 77", "attention", f"{ADA_IN_MOODLE}_attention"),
    ],
)
def test_layouts_of_course_systems(tmp_path: Path, name: str, student: str, chapter: str, page: str) -> None:
    put(tmp_path, name)
    (found,), lines = find(tmp_path, CHAPTERS)
    assert (found.student, found.chapter, found.page) == (student, chapter, page)
    assert not lines
    if "LATE" in name:
        assert (found.canvas, found.name, found.note) == ("1234", "lovelaceada", "late, says Canvas")
    if "assignsubmission" in name:
        assert (found.moodle, found.name) == ("77", "Ada Lovelace")
        assert len(found.page.split("_", 4)) == 5, "Moodle reads the participant and the plugin from five parts"


def test_folders_whose_names_differ_in_a_number_alone_are_of_two_students(tmp_path: Path) -> None:
    for folder in ("finn (1)", "finn (2)", "ada (1)", "Ida (1)"):
        put(tmp_path, f"{folder}/attention.ipynb")
    put(tmp_path, "ida_attention.ipynb")
    found, _ = find(tmp_path, CHAPTERS)
    assert len({one.student for one in found}) == 5
    assert [one.student for one in found if one.file.parent.name == "ada (1)"] == ["ada"]


def test_a_folder_may_hold_the_handout_of_a_chapter_whose_name_ends_in_anothers(tmp_path: Path) -> None:
    for name in ("multi_head_attention", "multi_head_attention (1)"):
        put(tmp_path, f"Jonas/{name}.ipynb", "ex-heads")
    (found,), _ = find(tmp_path, CHAPTERS)
    assert (found.student, found.chapter) == ("Jonas", "multi_head_attention")


def test_the_chapter_is_read_from_the_file_then_from_its_name(tmp_path: Path) -> None:
    put(tmp_path, "ada.ipynb", "ex-masks-bug")
    put(tmp_path, "kim_learning_rate.ipynb", "ex-masks-bug")
    put(tmp_path, "lou_multi_head_attention.ipynb", "ex-heads")  # the longest name of a chapter counts
    (tmp_path / "bob_learning_rate.ipynb").write_text("{broken", "utf-8")
    for name in ("zoe_9_assignsubmission_file_Kopie von masks", "ida_masks (1)"):
        (tmp_path / f"{name}.ipynb").write_text("{}", "utf-8")
    (tmp_path / "eve.ipynb").write_text("{broken", "utf-8")
    (tmp_path / "notes.txt").write_text("?", "utf-8")
    (tmp_path / "zoe_attention.zip").write_bytes(b"PK")
    found, lines = find(tmp_path, CHAPTERS)
    chapters = {"ada": "masks", "bob": "learning_rate", "kim": "masks", "lou": "multi_head_attention"}
    chapters |= {"ida": "masks", "zoe 9": "masks"}
    assert {one.student: one.chapter for one in found} == chapters
    assert [line.partition(":")[0] for line in lines] == ["eve.ipynb", "notes.txt", "zoe_attention.zip"]
    assert all(word in line for word, line in (("CHAPTER=", lines[0]), ("unpack", lines[2])))
    put(tmp_path, "ada_attention.ipynb")
    found, lines = find(tmp_path, CHAPTERS, wanted="attention")
    assert {one.file.name: one.chapter for one in found} == {
        "ada_attention.ipynb": "attention",
        "eve.ipynb": "attention",
    }
    assert [line.partition(":")[0] for line in lines[:2]] == ["ada.ipynb", "bob_learning_rate.ipynb"]


@pytest.mark.parametrize(
    "name",
    [
        *("attention", "Copy of attention", "attention (1)", "attention_final", "Masks", "homework", "my_homework 3"),
        *("Multi_Head_Attention", "multi_head_attention (1)", "multi_head_attention_final"),
    ],
)
def test_a_name_that_is_nobodys_becomes_no_student(tmp_path: Path, name: str) -> None:
    put(tmp_path, f"{name}.ipynb")
    with pytest.raises(SystemExit, match="STUDENT_attention"):
        find(tmp_path, CHAPTERS)
    put(tmp_path, "ada_attention.ipynb")
    (found,), (line,) = find(tmp_path, CHAPTERS)
    assert (found.student, line.partition(":")[0]) == ("ada", f"{name}.ipynb")


# What was handed in, the oldest first; what of it is graded, and what the lines begin with.
OF_SEVERAL = {
    "what is nobody's gets no line": (
        [
            "ada/attention/attention.ipynb",
            "ada/attention/._attention.ipynb",
            "ada/attention/.ipynb_checkpoints/attention-checkpoint.ipynb",
            "__MACOSX/ada_attention.ipynb",
            "eve/old/attention.ipynb",
            "a/b/attention/attention.ipynb",
        ],
        ["ada/attention/attention.ipynb"],
        ["a/b/attention/attention.ipynb", "eve/old/attention.ipynb"],
    ),
    "beside the assignment another notebook does not count": (
        ["ada/attention/attention.ipynb", "ada/attention/scratch.ipynb", "bob/attention.ipynb", "bob/x.ipynb"],
        ["ada/attention/attention.ipynb", "bob/attention.ipynb"],
        ["scratch.ipynb", "x.ipynb"],
    ),
    "a folder of several names is nobody's": (
        ["group a/ada.ipynb", "group a/bob.ipynb", "week 3/attention.ipynb", "cid.ipynb"],
        ["cid.ipynb"],
        ["group a/ada.ipynb", "group a/bob.ipynb", "week 3/attention.ipynb"],
    ),
    "upper and lower case are one": (
        ["Maria_attention.ipynb", "maria_Attention.ipynb", "emil.ipynb"],
        ["maria_Attention.ipynb", "emil.ipynb"],
        ["Maria_attention.ipynb"],
    ),
    "the newer counts": (["ada_attention.ipynb", "ada.ipynb"], ["ada.ipynb"], ["ada_attention.ipynb"]),
    "beside nbgrader's folder others are read, but not its own": (
        ["ada_attention.ipynb", "submitted/tim.ipynb", "submitted/ada/attention/attention.ipynb", "release/x/x.ipynb"],
        ["submitted/ada/attention/attention.ipynb", "submitted/tim.ipynb"],
        ["ada_attention.ipynb"],
    ),
}


@pytest.mark.parametrize(("names", "taken", "told"), OF_SEVERAL.values(), ids=OF_SEVERAL)
def test_of_several_files_some_are_taken(tmp_path: Path, names: list[str], taken: list[str], told: list[str]) -> None:
    for seconds, name in enumerate(names):
        put(tmp_path, name)
        os.utime(tmp_path / name, (seconds, seconds))
    found, lines = find(tmp_path, CHAPTERS)
    assert [one.file.relative_to(tmp_path).as_posix() for one in found] == taken
    assert [line.partition(":")[0] for line in lines] == told


def test_of_two_files_with_one_date_the_later_name_counts(tmp_path: Path) -> None:
    for name in ("ada.ipynb", "ada_attention.ipynb"):
        put(tmp_path, name)
        os.utime(tmp_path / name, (1, 1))  # as after an upload
    (found,), (line,) = find(tmp_path, CHAPTERS)
    assert found.file.name == "ada_attention.ipynb"
    assert line.startswith("ada.ipynb: left out for ada_attention.ipynb")


def test_what_was_handed_out_counts_less_than_what_is_filled_in(tmp_path: Path) -> None:
    put(tmp_path, "ada/attention.ipynb")
    given = texts(tmp_path / "ada" / "attention.ipynb")
    put(tmp_path, "ada/attention-Copy1.ipynb")
    filled = tmp_path / "ada" / "attention-Copy1.ipynb"
    for text, counts in (("", "attention.ipynb"), ("f = 1", filled.name)):
        filled.write_text(filled.read_text("utf-8").replace('"source": ""', f'"source": "{text}"'), "utf-8")
        (found,), (line,) = find(tmp_path, CHAPTERS, given={"attention": given})
        assert found.file.name == counts
    assert "filled in" in line
    assert texts(tmp_path) == frozenset()


def test_a_line_names_its_chapter_so_that_no_other_report_has_it(tmp_path: Path) -> None:
    for name, label in (
        ("ada.ipynb", "ex-masks-bug"),
        ("ada_masks.ipynb", "ex-masks-bug"),
        ("Copy of masks.ipynb", "ex-masks-bug"),
        ("eve.ipynb", "ex-attention-write"),
        ("eve_b.ipynb", "ex-heads"),
    ):
        put(tmp_path, name, label)
    put(tmp_path, "notes.txt")
    told = {line.partition(":")[0]: line.chapter for line in find(tmp_path, CHAPTERS)[1]}
    masks = dict.fromkeys(["Copy of masks.ipynb", "ada.ipynb"], "masks")
    assert told == {**masks, "notes.txt": ""}


@pytest.mark.posix
def test_a_link_shows_nobody_elses_work(tmp_path: Path) -> None:
    put(tmp_path, "ada.ipynb")
    (tmp_path / "eve.ipynb").symlink_to("ada.ipynb")
    (found,), lines = find(tmp_path, CHAPTERS)
    assert (found.student, len(lines)) == ("ada", 1)
    assert "eve.ipynb" in lines[0]


def test_a_students_name_is_safe_in_paths_and_patterns_and_two_names_stay_two() -> None:
    for name in ("../../etc", "*", "[x]", "..", "=1+1"):
        assert not set(safe(name)) & set("/\\*?[]")
        assert safe(name) not in {"", ".", ".."}
    pairs = [("O'Brien", "O\u2019Brien"), ("रमा", "रमी"), ("Zoe\u0308", "Zoe\u0301"), ("M\udcfcller", "M\udcf6ller")]
    assert all(safe(one) != safe(other) for one, other in pairs)
    assert safe("रमा") == "रमा"
    assert safe("Zoe\u0308 B") == safe("Zo\u00eb B") == "Zo\u00eb B", "an accent may be written in two ways"


def test_a_file_name_that_is_no_utf_8_is_graded(tmp_path: Path) -> None:
    name = os.fsdecode(b"M\xfcller_7_assignsubmission_file_x.ipynb")
    try:
        put(tmp_path, name)
    except OSError:
        pytest.skip("this file system takes no such names")
    (found,), _ = find(tmp_path, CHAPTERS)
    (tmp_path / "marks.csv").write_text(f"{found.student} {found.name} {found.page}", "utf-8")
    assert found.moodle == "7"


def test_nothing_to_grade_says_what_was_expected(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "all.zip").write_bytes(b"PK")
    for name, word in (("missing", "is no folder"), ("empty", "in .*empty"), ("all.zip", "unpack")):
        with pytest.raises(SystemExit, match=word):
            find(tmp_path / name, CHAPTERS)


# ── Rebuilding ────────────────────────────────────────────────────────────────────────────────────────────────


def test_answers_come_from_the_student_and_all_else_from_the_assignment(tmp_path: Path) -> None:
    mine = assignment()
    mine.cells[1].source = "import os"
    mine.cells[2].source = "def f(x):\n    return 2 * x"
    mine.cells[3].source = "assert True"
    mine.cells[4].source = "Because."
    mine.cells.insert(3, new_code_cell("f(3)", id="own"))
    mine.metadata = {"kernelspec": {"name": "julia-1.9", "display_name": "Julia", "language": "julia"}}
    rebuilt, notes = rebuild(assignment(), submitted(tmp_path, mine))
    assert rebuilt.metadata == assignment().metadata
    assert sources(rebuilt) == [
        "# Exercises",
        "import math",
        "def f(x):\n    return 2 * x",
        "f(3)",
        "assert f(1) == 2",
        "Because.",
    ]
    assert notes == [f"{name}: {CHANGED}" for name in ("setup", "ex-f-check")]
    assert not any(one.metadata.get("unanswered") for one in rebuilt.cells)


@pytest.mark.parametrize("kept", ["ids", "nothing", "roles of other names"])
def test_lost_metadata_does_not_lose_answers(tmp_path: Path, kept: str) -> None:
    mine = assignment()
    mine.cells[2].source = "import os\ndef f(x):\n    return 2 * x"
    mine.cells[4].source = "Because."
    for number, one in enumerate(mine.cells):
        one.metadata = role(f"mine-{number}") if kept == "roles of other names" else {}
        one["id"] = one["id"] if kept == "ids" else f"x{number}"
    rebuilt, _ = rebuild(assignment(), submitted(tmp_path, mine))
    assert "return 2 * x" in rebuilt.cells[2].source
    assert rebuilt.cells[4].source == "Because."
    assert [one.metadata for one in rebuilt.cells[:5]] == [one.metadata for one in assignment().cells]


def test_a_missing_answer_gets_its_starter_and_a_note(tmp_path: Path) -> None:
    mine = assignment()
    del mine.cells[2]
    rebuilt, notes = rebuild(assignment(), submitted(tmp_path, mine))
    assert sources(rebuilt) == sources(assignment())
    assert [note.partition(":")[0] for note in notes] == ["ex-f"]
    assert [one["id"] for one in rebuilt.cells if one.metadata.get("unanswered")] == ["ex-f-check"]


def two_answers() -> Any:
    """The small assignment with a second answer, which starts as `y = None`."""
    book = assignment()
    check = role("ex-y-check", grade=True, locked=True, points=1) | {"book": {"answer": "ex-y", "names": ["y"]}}
    book.cells[4:4] = [
        new_markdown_cell("## y", id="ex-y-text"),
        new_code_cell("y = None", id="ex-y", metadata=role("ex-y", solution=True)),
        new_code_cell("assert y", id="ex-y-check", metadata=check),
    ]
    return book


BOTH = "%%time\nimport os\ndef f(x):\n    return 2 * x\ny: int = 3"


@pytest.mark.parametrize("place", ["a cell on top", "the cell of the first answer"])
def test_no_starter_is_put_back_behind_the_cell_that_answers_for_it(tmp_path: Path, place: str) -> None:
    mine = two_answers()
    del mine.cells[5]
    if place == "a cell on top":
        del mine.cells[2]
        mine.cells.insert(0, new_code_cell(BOTH, id="own"))
    else:
        mine.cells[2].source = BOTH
    rebuilt, notes = rebuild(two_answers(), submitted(tmp_path, mine))
    by_name = {one.metadata["nbgrader"]["grade_id"]: one for one in rebuilt.cells if "nbgrader" in one.metadata}
    assert (by_name["ex-f"].source, by_name["ex-y"].source) == (BOTH, "")
    assert "unanswered" not in by_name["ex-y-check"].metadata
    assert [note.partition(":")[0] for note in notes][-1] == "ex-y"
    assert "starter" not in notes[-1]


def test_what_is_defined_below_the_check_keeps_the_starter(tmp_path: Path) -> None:
    mine = two_answers()
    del mine.cells[2]
    mine.cells[4].source = BOTH  # the second answer: its own place counts
    rebuilt, notes = rebuild(two_answers(), submitted(tmp_path, mine))
    assert sources(rebuilt)[2] == "def f(x):\n    ..."
    assert [note.partition(":")[0] for note in notes] == ["ex-f"]
    assert "starter" in notes[0]


def test_an_answer_copied_below_counts_last_as_when_the_student_ran_it(tmp_path: Path) -> None:
    mine = assignment()
    again = new_code_cell("def f(x):\n    return 2", metadata=role("ex-f", solution=True))
    mine.cells.insert(3, again)
    rebuilt, _ = rebuild(assignment(), submitted(tmp_path, mine))
    assert sources(rebuilt)[2:5] == ["def f(x):\n    ...", "def f(x):\n    return 2", "assert f(1) == 2"]
    assert len({one["id"] for one in rebuilt.cells}) == len(rebuilt.cells)


def test_a_written_answer_in_a_cell_below_is_taken_over(tmp_path: Path) -> None:
    mine = assignment()
    picture = {"a.png": {"image/png": "iVBORw0KGgo="}, "x.svg": {"image/svg+xml": "<svg/>"}}
    own = new_markdown_cell("Because.", id="own")
    own["attachments"] = picture
    mine.cells += [own, new_code_cell("1 + 1", id="own2"), new_markdown_cell("Later.", id="own3")]
    rebuilt, notes = rebuild(assignment(), submitted(tmp_path, mine))
    assert sources(rebuilt)[4:] == ["*Here.*\n\nBecause.", "1 + 1", "Later."]
    assert rebuilt.cells[4]["attachments"] == {"a.png": {"image/png": "iVBORw0KGgo="}}
    assert [note.partition(":")[0] for note in notes] == ["ex-why"]
    mine.cells[4].source = "In place."
    rebuilt, notes = rebuild(assignment(), submitted(tmp_path, mine))
    assert (sources(rebuilt)[4], notes) == ("In place.", [])


def test_half_of_a_character_and_a_picture_that_is_none_do_no_harm(tmp_path: Path) -> None:
    mine = assignment()
    mine.cells[4].source = "Because \ud800."
    mine.cells[4]["attachments"] = {"a.png": {"image/png": '"><script>'}}
    rebuilt, _ = rebuild(assignment(), submitted(tmp_path, json.loads(json.dumps(mine))))
    assert sources(rebuilt)[4] == "Because ?."
    assert "attachments" not in rebuilt.cells[4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        *((text, "JSON") for text in ("{", bytes(range(256)), "[" * 100_000)),
        ("[]", "no notebook"),
        ("[1]", "no notebook"),
        ('{"cells": [1, "x"], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "no notebook"),
        ('{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "no notebook"),
        ('{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "no cells"),
    ],
)
def test_what_is_no_notebook_is_said(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        submitted(tmp_path, text)


def test_a_notebook_beyond_the_limit_is_not_read_and_the_remedy_is_said(tmp_path: Path) -> None:
    put(tmp_path, "ada.ipynb")
    file = tmp_path / "ada.ipynb"
    text = file.read_bytes()
    long = json.loads(text)
    pictures = [{"output_type": "display_data", "data": {"image/png": "A" * (21 << 20)}, "metadata": {}}]
    long["cells"][0]["outputs"] = pictures
    file.write_text(json.dumps(long), "utf-8")
    assert "ex-attention-write" in ids(read(file))
    file.write_text(json.dumps(long | {"metadata": {"own": pictures}}), "utf-8")
    with pytest.raises(Unreadable, match="21 MB"):
        read(file)
    file.write_bytes(text + b" " * ((MAX_MB + 1) << 20))
    with pytest.raises(Unreadable, match="51 MB"):
        read(file)
    with pytest.raises(SystemExit, match="CHAPTER="):
        find(tmp_path, CHAPTERS)


def test_odd_cells_are_read_as_plain_text(tmp_path: Path) -> None:
    odd = {"cell_type": "code", "source": ["a\n", "b"], "metadata": {"nbgrader": [1]}, "outputs": [{"x": 1}], "id": 7}
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [odd, {"cell_type": "raw", "source": "r"}]}
    found = submitted(tmp_path, "\ufeff" + json.dumps(book))
    assert sources(found) == ["a\nb"]
    assert ids(found) == {"7"}


# ── Marks ─────────────────────────────────────────────────────────────────────────────────────────────────────


def marks(student: str = "ada", **more: Any) -> Marks:
    submission = Submission(Path("x"), student, "attention", **more)
    points, maximum = {"ex-f-check": 1.0, "ex-f-hidden": 0.0}, {"ex-f-check": 1.0, "ex-f-hidden": 1.0}
    return Marks(submission, points, maximum, [], {"ex-f-check": "Right", "ex-f-hidden": "off by 3"}, ["=cmd()"])


def rows(table: list[list[object]]) -> list[list[str]]:
    """A table as a spreadsheet reads it."""
    return list(csv.reader(io.StringIO(as_csv(table))))


def test_marks_for_course_systems() -> None:
    found = rows(generic([marks(note="late, says Canvas; 2 days more"), marks("=HYPERLINK(1)")]))
    assert found[1] == ["ada", "", "1.0", "2.0", "1.0", "1.0", "0.0", "", "late, says Canvas; 2 days more; =cmd()"]
    assert found[2][0] == "'=HYPERLINK(1)", "a spreadsheet would run it"
    head, ada = rows(moodle([marks(moodle="77", name="Ada")]))
    assert head[:4] == ["Identifier", "Full name", "Grade", "Maximum Grade"]
    assert ada == ["Participant 77", "Ada", "1.0", "2.0", "", "'=cmd(); ex-f, further checks: off by 3"]
    assert rows(canvas([marks(canvas="1234", name="Ada")], "Attention")) == [
        ["Student", "ID", "SIS Login ID", "Section", "Attention"],
        ["    Points Possible", "", "", "", "2.0"],
        ["Ada", "1234", "", "", "1.0"],
    ]


def graded(name: str, auto: float | None, manual: float | None, asks: bool = False) -> Any:
    """An entry of nbgrader's gradebook."""
    score = auto if manual is None else manual
    points = {"score": score, "auto_score": auto, "manual_score": manual, "max_score": 2}
    return SimpleNamespace(name=name, needs_manual_grade=asks, **points)


def from_gradebook(entries: list[Any], names: dict[str, str] | None = None) -> Marks:
    """The marks of a student whose gradebook has these entries."""
    book = SimpleNamespace(find_submission_notebook=lambda *_: SimpleNamespace(grades=entries, comments=[]))
    record = {"outcomes": {}, "events": [], "error": ""}
    return marks_of(book, Submission(Path("x"), "ada", "attention"), record, names or {})


def test_a_mark_that_a_person_changed_says_so_with_the_reason() -> None:
    entries = [graded("ex-f-check", 2, 0), graded("ex-f-hidden", 1, 1), graded("ex-why", None, 2)]
    entries += [graded("ex-g-check", 0, 2)]
    comments = [
        SimpleNamespace(name="ex-f", manual_comment="Copied from Bob."),
        SimpleNamespace(name="ex-g", manual_comment=None),
    ]
    changed = changed_by_hand(SimpleNamespace(grades=entries, comments=comments))
    assert [*changed] == ["ex-f-check", "ex-g-check"], "an equal mark and one of a written answer change nothing"
    assert re.search("gave 0 of 2.*had given 2.*Copied", changed["ex-f-check"])
    assert "no reason" in changed["ex-g-check"]
    one = marks()
    one.changed, one.points["ex-f-check"] = changed, 0.0
    assert "Copied from Bob" in rows(generic([one]))[1][-1]
    assert "Copied from Bob" in one.comment
    assert "Right" not in one.comment, "the check's praise beside no points"


def test_a_written_answer_that_nobody_has_marked_is_no_0() -> None:
    entries = [
        graded("ex-why", None, None, asks=True),
        graded("ex-old", None, 1, asks=True),
        graded("ex-empty", 0, None),
    ]
    one = from_gradebook(entries)
    assert (one.shown, one.unseen) == ({"ex-why": "–", "ex-old": 1, "ex-empty": 0}, {"ex-why"})
    assert rows(generic([one]))[1][2:8] == ["1.0", "6.0", "–", "1.0", "0.0", "ex-old ex-why"]


def test_excel_opens_a_table_in_columns_and_with_all_letters() -> None:
    content = for_excel(generic([marks("Jörg")]))
    assert content[:2] in (b"\xff\xfe", b"\xfe\xff"), "the mark by which Excel knows the encoding"
    assert content.decode("utf-16").splitlines()[1].split("\t")[:3] == ["Jörg", "", "1.0"]


def test_where_the_grader_failed_there_is_no_mark() -> None:
    failed = marks("bob")
    failed.error = "RuntimeError"
    assert rows(generic([marks(), failed]))[2][2:] == ["", "2.0", "", "", "", "", f"'=cmd(); {NO_MARK}"]
    assert rows(moodle([failed]))[1][2:] == ["", "2.0", "", NO_MARK]
    assert rows(canvas([failed], "Attention"))[2][-1] == ""
    text = report("attention", [marks(), failed], [])
    assert "most 1, of 2" in text
    assert "RuntimeError" in text


def test_a_mark_by_hand_that_is_to_be_confirmed_is_no_written_answer() -> None:
    one = marks()
    one.waiting = ["ex-f-check", "ex-why"]
    assert one.unmarked == ["ex-why"]
    for text in (one.comment, report("attention", [one], [])):
        assert all(words in text for words in ("1 written answer ", "1 mark by hand"))
        assert not ONE_AND_MORE.search(text)


def test_a_number_and_its_noun_agree() -> None:
    shown = {number: counted(number, "point") for number in (0, 0.5, 1.0, 1_000_000)}
    assert [*shown.values()] == ["0 points", "0.5 points", "1 point", "1,000,000 points"]


def test_the_report_counts_messages_that_differ_in_numbers_only() -> None:
    assert alike("off by 3.25\nmore") == alike("off by -1e-5") == "off by …"
    bob = marks("bob", note="late")
    bob.outcomes["ex-f-hidden"] = "off by -1e-5"
    text = report("attention", [marks(), bob], ["x.txt: left out"])
    assert "| ex-f-hidden | 0 | 2 |" in text
    assert "- bob: late" in text
    bob.points["ex-f-check"] = 0.0
    assert "least 0, middle 0.5, most 1, of 2" in report("attention", [marks(), bob], []), "the mean of the middle two"
    assert "2 ×: off by 3\n" in text, "two of a kind, as one of them has it"
    bob.outcomes["ex-f-check"] = "`'25 <b>cells</b>'` is no number"
    assert "''25 &lt;b&gt;cells" in report("attention", [bob], []), "what was written, as text; in code it stays &lt;"
    assert "x.txt" in text


def test_cells_that_differ_in_most_notebooks_are_named_once_with_the_likely_reason() -> None:
    others = [marks("bob"), marks("eve")]
    for one in others:
        one.events.append(f"setup: {CHANGED}")
    others[0].events.append(f"ex-f-check: {CHANGED}")
    text = report("attention", [marks(), *others], [])
    assert text.count(f"setup: {CHANGED}") == 1
    assert f"- bob: ex-f-check: {CHANGED}\n" in text
    assert f"- bob: setup: {CHANGED}" in report("attention", others[:1], []), "one notebook is no class"


def test_each_exercise_has_its_sum_before_its_parts() -> None:
    parts = {"ex-b-check": 1.0, "ex-why": 2.0, "ex-a-check": 2.0, "ex-b-hidden": 3.0, "ex-a-hidden": 0.5}
    one = Marks(Submission(Path("x"), "ada", "attention"), parts, dict.fromkeys(parts, 4.0), titles={"ex-b": "Find it"})
    head, row = rows(generic([one]))
    found = list(zip(head, row, strict=True))[4:-2]
    assert found == [
        ("ex-b", "4.0"),
        ("ex-b-check", "1.0"),
        ("ex-b-hidden", "3.0"),
        ("ex-why", "2.0"),
        ("ex-a", "2.5"),
        ("ex-a-check", "2.0"),
        ("ex-a-hidden", "0.5"),
    ]
    two = Marks(one.submission, dict.fromkeys(parts, 0.0), one.maximum, titles=one.titles)
    assert "| Find it | 2.0 | 8 |" in report("attention", [one, two], [])


def test_a_part_has_the_title_of_its_exercise() -> None:
    statement = "## Exercise 2: Doubles\n\n*Write.*"
    book = assignment()
    book.cells.insert(2, new_markdown_cell(statement, id="ex-f-text-2"))
    assert titles(book) == {"ex-f": "Exercise 2: Doubles"}
    grades = [graded("ex-f-check", 2, None), graded("ex-f-hidden", None, None), graded("ex-why", None, 1)]
    one = from_gradebook(grades, titles(book))
    assert one.title("ex-f-hidden") == "Exercise 2: Doubles, further checks"
    assert (one.title("ex-f"), one.title("ex-why")) == ("Exercise 2: Doubles", "ex-why")
    assert one.parts == {"ex-f": ["ex-f-check", "ex-f-hidden"], "ex-why": ["ex-why"]}
    assert (one.shown["ex-f"], one.worth(one.parts["ex-f"])) == (2, 4)


# ── The class list ────────────────────────────────────────────────────────────────────────────────────────────


def table_of_the_class(tmp_path: Path, text: str) -> Path:
    (tmp_path / "class.csv").write_text(text, "utf-8-sig")
    return tmp_path / "class.csv"


CLASS = """student,group
ada,1
Participant 77,1
1234,2
O'Brie\u0301n,2
never,1
"""


def test_the_class_list_tells_who_handed_in_nothing(tmp_path: Path) -> None:
    students = read_class(table_of_the_class(tmp_path, CLASS))
    submissions = [
        Submission(tmp_path / "1", "ada", "attention"),
        Submission(tmp_path / "2", "Bob 77", "attention", "Bob", moodle="77"),
        Submission(tmp_path / "3", "eve-1234", "attention", "eve", canvas="1234"),
        Submission(tmp_path / "4", safe("O'Bri\u00e9n"), "attention"),
        Submission(tmp_path / "5", "homework", "attention"),
    ]
    found = with_students(students, submissions)
    assert [one.listed for one in found] == ["ada", "77", "1234", "O'Bri\u00e9n", ""]
    assert absent(students, found, "attention") == {"never": ""}
    assert [*absent(students, found, "masks")] == [*students]
    text = report("attention", [marks()], [], {"never": ""})
    assert "- never" in text
    assert "never" not in report("attention", [marks()], [])


def test_beside_who_has_no_notebook_stand_the_files_that_were_left_out(tmp_path: Path) -> None:
    for name in ("ada_essay.pdf", "eve_1234_56_x.zip", f"{ADA_IN_MOODLE}/x.py", "Bob/old/x.ipynb", "bobs.pdf"):
        put(tmp_path, name)
    for name in ("ada_attention.pdf", "ada_attention-1.zip", "cid_attention.ipynb"):
        put(tmp_path, name)
    put(tmp_path, ".hidden/never.pdf")
    found, lines = find(tmp_path, CHAPTERS)
    assert len(lines) == 7
    students = ["ada", "ada_essay", "1234", "77", "bob", "cid", "never", tmp_path.name]
    may_be = {
        "ada": {"ada_attention-1.zip", "ada_attention.pdf", "ada_essay.pdf", "x.py"},
        "ada_essay": {"ada_essay.pdf"},
        "1234": {"eve_1234_56_x.zip"},
        "77": {"x.py"},
        "bob": {"x.ipynb"},
        "never": set(),
        tmp_path.name: set(),
    }
    told = absent(students, with_students(dict.fromkeys(students, ""), found), "attention", lines)
    named = {student: re.findall(r"[^/ ]+(?=: )", text) for student, text in told.items()}
    assert {student: {*files} for student, files in named.items()} == may_be


def test_a_notebook_that_may_be_somebodys_is_named_beside_that_student(tmp_path: Path) -> None:
    """A name that is written in another way than the file's is no reason to lose all points unseen."""
    named = [
        "Maria_Attention",
        "attention_jo2",
        "emil-attention",
        "Attention_Frank",
        "Marias_attention",
        "zoe_attention",
    ]
    for name in named:
        put(tmp_path, f"{name}.ipynb")
    students = dict.fromkeys(["maria", "Jo", "emil", "frank", "Mari", "Zoe", "Never"], "")
    found = with_students(students, find(tmp_path, CHAPTERS)[0])
    assert {one.file.stem: one.listed for one in found if one.listed} == {
        "Maria_Attention": "maria",
        "zoe_attention": "Zoe",
    }
    lines = [f"{one.file.name}: not on the list" for one in found if not one.listed]
    told = absent(students, found, "attention", lines)
    assert {name: re.findall(r"[\w-]+\.ipynb", text) for name, text in told.items()} == {
        "Jo": ["attention_jo2.ipynb"],
        "emil": ["emil-attention.ipynb"],
        "frank": ["Attention_Frank.ipynb"],
        "Mari": [],
        "Never": [],
    }
    assert "attention_jo2.ipynb" in report("attention", [marks()], [], told)


def test_who_handed_in_nothing_gets_no_points_in_every_table() -> None:
    nothing = [of_absent("Bob", "bob.pdf", marks(), "ill until June"), of_absent("77", "", marks())]
    found = rows(generic([marks(), *nothing]))[2:]
    assert [row[0:4] for row in found] == [["Bob", "Bob", "0.0", "2.0"], ["77", "77", "0.0", "2.0"]]
    assert found[0][-1] == "ill until June; no notebook; bob.pdf"
    assert [row[:3] for row in rows(moodle(nothing))[1:]] == [["Bob", "Bob", "0.0"], ["Participant 77", "77", "0.0"]]
    assert [row[1::3] for row in rows(canvas(nothing, "Attention"))[2:]] == [["", "0.0"], ["77", "0.0"]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_class_list_of_any_excel_is_read(tmp_path: Path, encoding: str, sign: str) -> None:
    lines = [["name", "student", "notes"], ["Müller, Jörg", "jörg", "until 12 May"], ["Zoé", "zoé", ""]]
    content = "\r\n".join(sign.join(f'"{one}"' for one in line) for line in lines)
    (tmp_path / "class.csv").write_bytes(content.encode(encoding))
    students = read_class(tmp_path / "class.csv")
    assert students == {"jörg": "until 12 May", "zoé": ""}
    put(tmp_path, "Jo\u0308rg_77_assignsubmission_file_x.ipynb")  # an accent may be written in two ways
    [found] = with_students(students, find(tmp_path, CHAPTERS)[0])
    assert found.note == "until 12 May"


def test_a_grading_worksheet_of_moodle_is_a_class_list_that_says_who_was_late(tmp_path: Path) -> None:
    table = """Identifier,"Full name",Status,Grade
"Participant 77",Ada,"Submitted for grading - 1 hour 20 mins late - Extension granted until: Tuesday, 12 May 2026",
"Participant 78",Bob,"No submission - Assignment is overdue by: 3 days",
"""
    students = read_class(table_of_the_class(tmp_path, table))
    assert students == {"77": "1 hour 20 mins late; Extension granted until: Tuesday, 12 May 2026", "78": ""}
    [_, bob] = absent(students, [], "attention")
    of_bob = of_absent(bob, "", marks())
    assert moodle([of_bob])[1][:2] == ["Participant 78", "Bob"]
    assert generic([of_bob])[1][:2] == ["78", "Bob"]


def test_a_name_written_as_one_word_may_be_that_students() -> None:
    students = ["Grace Okafor", "Ada", "Ed"]
    for name in ("OkaforGrace_12_34_x", "graceokafor-masks", "Grace Okafor"):
        assert may_be(students, Path(f"{name}.ipynb")) == ["Grace Okafor"]


def test_a_written_answer_that_waits_is_no_0_in_the_report() -> None:
    points, maximum = {"a": 0.0, "b-check": 1.0}, {"a": 4.0, "b-check": 1.0}
    one = Marks(Submission(Path("x"), "ada", "attention"), points, maximum, ["a"], unseen={"a"})
    assert {"| a | – | 4 |", "| a | – | 1 |", "| b-check | 1 | 1 |"} <= {*report("attention", [one], []).split("\n")}
    one.unseen = set()  # somebody has given 0
    assert {"| a | 0.0 | 4 |", "| a | 0 | 1 |"} <= {*report("attention", [one], []).split("\n")}


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x85"])
def test_a_sign_that_is_no_line_end_divides_no_student(tmp_path: Path, sign: str) -> None:
    assert len(read_class(table_of_the_class(tmp_path, f"student,group\nJ{sign}M,1\r\nada,2\n"))) == 2


def test_one_line_of_the_class_list_is_one_student(tmp_path: Path) -> None:
    two = [Submission(tmp_path / n, f"Ann {n}", "attention", "Ann", moodle=n) for n in ("7", "8")]
    with pytest.raises(SystemExit, match="Ann"):
        with_students({"Ann": ""}, two)
    assert all(one.listed for one in with_students({"7": "", "8": ""}, two))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"class\.csv"),
        (b"name;group\nada;1\n", "name, group"),
        (b"", "none"),
        (b"student,group\nada,\nada,\n", "line 3"),
    ],
)
def test_a_class_list_that_cannot_be_read_says_why(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "class.csv").write_bytes(content)
    with pytest.raises((ValueError, OSError), match=message):
        read_class(tmp_path / "class.csv")
