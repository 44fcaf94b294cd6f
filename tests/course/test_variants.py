"""Numbers drawn for each student: the same whenever they are drawn, fair with every answer, useless to a neighbour.

That each answer earns what it should with every combination of numbers is tried in test_exercises.py, chapter by
chapter: here 100 students of three classes get none but those.
"""

import copy
import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import zoo
from nbformat.v4 import new_code_cell, new_notebook

from workshop.course import make_assignments, try_exercises, variants
from workshop.course.exercise_context import bound
from workshop.course.exercise_context import read as read_names
from workshop.course.exercises import Exercise, WrongAnswer, exercises_of, tags
from workshop.course.grading.rebuild import OTHER_NUMBERS, read, rebuild
from workshop.site.book_index import pages_in_order, read_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [read_page(path) for path in pages_in_order(ROOT)]
WITH_NUMBERS = {one.label: one for page in PAGES for one in exercises_of(page) if "numbers" in one.cells}
DRAWN = {label: one.cells["numbers"] for label, one in WITH_NUMBERS.items()}
KEY = b"0123456789abcdef0123456789abcdef"
STUDENTS = [f"student {number}" for number in range(100)]


def values(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    assert try_exercises.run(source, names) == ""
    return {name: names[name] for name in bound(source)}


def test_every_combination_is_listed_and_the_written_one_comes_first() -> None:
    found = variants.combinations("n = 3  # 2..3 | 7\n\nd_k = 64  # 16 | 64\n")
    assert found[0] == "n = 3\nd_k = 64"
    assert sorted(found) == [f"n = {n}\nd_k = {d_k}" for n in (2, 3, 7) for d_k in (16, 64)]
    assert variants.combinations("x = 1_000  # 1_000 | -0.5 | 'a b'") == ["x = 1_000", "x = -0.5", "x = 'a b'"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("n = 5", "'n = 5'"),
        ("n = 5  # six | 5", "six"),
        ("n = 5  # 6..9", r"6\.\.9"),
        ("n = 5  # 9..1", r"9\.\.1"),
        ("if True: n = 5  # 4..5", "if True"),
        ("n = 5  # 5", "combinations"),
        ("n = 5  # 0..10\nm = 1  # 0..9", "110"),
    ],
)
def test_numbers_that_cannot_be_drawn_are_refused(source: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        variants.combinations(source)


def test_one_hundred_students_get_numbers_that_are_tried_and_get_them_again() -> None:
    assert len(DRAWN) >= 20
    for label, source in DRAWN.items():
        every = variants.combinations(source)
        for key in (KEY, KEY[::-1], b"\0" * 32):
            found = [variants.drawn(source, key, student, label) for student in STUDENTS]
            assert set(found) <= set(every), label
            assert len(set(found)) > len(every) / 2, f"{label}: 100 students get {len(set(found))} of {len(every)}"
            assert found == [variants.drawn(source, key, student, label) for student in STUDENTS]


def test_another_key_another_exercise_and_another_student_get_other_numbers() -> None:
    source = "n = 5  # 0..99"
    first = [variants.drawn(source, KEY, student, "ex-a") for student in STUDENTS]
    for key, label, students in ((KEY[::-1], "ex-a", STUDENTS), (KEY, "ex-b", STUDENTS), (KEY, "ex-a", STUDENTS[::-1])):
        other = [variants.drawn(source, key, student, label) for student in students]
        assert sum(map(str.__eq__, first, other)) < 10
    written_twice = ("Zo\u00eb", "Zoe\u0308")  # as one letter, and as e with two dots after it
    assert len({variants.drawn(source, KEY, student, "ex-a") for student in written_twice}) == 1


def test_the_names_of_numbers_are_those_of_no_other_cell_of_the_page() -> None:
    for page in PAGES:
        cells = [block for block in page.blocks if block.name == "code-cell"]
        for one in (cell for cell in cells if "numbers" in tags(cell)):
            names = set().union(*(bound(other.text) for other in cells if other is not one))
            assert bound(one.text) & names == set(), page.name


@pytest.mark.parametrize("label", DRAWN)
def test_a_students_check_holds_the_numbers_and_no_cell_reads_their_names(label: str) -> None:
    exercise, names = WITH_NUMBERS[label], bound(DRAWN[label])
    shown = [block for block in exercise.statement if block.name == "code-cell" and "numbers" not in tags(block)]
    assert not names & set().union(*(read_names(block.text) for block in shown)), "it would fail before any answer"
    check = {"nbgrader": {"grade_id": f"{label}-check"}, "book": {"answer": label}}
    numbers = {"nbgrader": {}, "book": {"numbers": label}}
    book = new_notebook(
        cells=[
            new_code_cell(DRAWN[label], metadata=numbers),
            new_code_cell(exercise.cells["check"], metadata=check),
        ]
    )
    variants.put_in(book, KEY, "ada")
    written = values(book.cells[0].metadata["book"]["drawn"])
    assert set(written) == names
    assert not bound(book.cells[0].source), "the notebook shows them"
    assert not names & (read_names(book.cells[1].source) | bound(book.cells[1].source))
    read_by_it = names & read_names(exercise.cells["check"])
    assert all(repr(written[name]) in book.cells[1].source for name in read_by_it), "the student's own"


@pytest.fixture
def exercise() -> Exercise:
    """Twice a number."""
    made = Exercise("ex-made", "", 1, "predict", "easy", 1, 2, "", ["x"])
    made.cells = {
        "numbers": "n = 3  # 3..5",
        "answer": "x = None",
        "check": "def check_x(x):\n    return 'Right' if x == 2 * n else 'No.'\n\n\nprint(check_x(x))",
        "solution": "x = 2 * n",
        "hidden-check": "assert x == n + n",
    }
    made.wrong_answers = [WrongAnswer("x = n", 2, 7), WrongAnswer("x = n**2", 2, 8)]
    return made


def test_a_fair_exercise_has_no_fault(exercise: Exercise) -> None:
    assert try_exercises.try_numbers(exercise, {}) == []


@pytest.mark.parametrize(
    ("cell", "was", "now", "words"),
    [
        ("numbers", "3..5", "2..5", ["n = 2", "line 8"]),
        ("numbers", "3..5", "3..5\nm = 1  # 1..2", ["n = 3, m = 2", "other numbers"]),
        ("check", "x == 2 * n", "abs(x - 2 * n) < 3", ["other numbers"]),
        ("answer", "None", "[None] * n", ["reads n"]),
    ],
    ids=["a mistake is right", "two are the same", "a neighbour is within the tolerance", "the answer cell reads them"],
)
def test_numbers_that_are_not_fair_are_named(
    exercise: Exercise, cell: str, was: str, now: str, words: list[str]
) -> None:
    exercise.cells[cell] = exercise.cells[cell].replace(was, now)
    if cell == "check":
        exercise.cells["hidden-check"] = "assert abs(x - n - n) < 3"
    faults = try_exercises.try_numbers(exercise, {})
    assert [fault for fault in faults if all(word in fault for word in words)]


def test_a_key_that_is_missing_or_short_is_refused_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "class.key"
    with pytest.raises(ValueError, match=r"class\.key"):
        variants.read_key(file)
    file.write_text("geheim\n", "utf-8")
    with pytest.raises(ValueError, match="32"):
        variants.read_key(file)
    file.write_bytes(KEY + b"\n")
    assert variants.read_key(file) == KEY


def test_a_key_without_students_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "class.key").write_bytes(KEY)
    (tmp_path / "class.csv").write_text("student\n", "utf-8")
    key, students = ["--variants", str(tmp_path / "class.key")], ["--students", str(tmp_path / "class.csv")]
    for options, message in ((key, "--students"), (students, "--variants"), ([*key, *students], "class.csv")):
        monkeypatch.setattr("sys.argv", ["make_assignments", "attention", "--out", str(tmp_path / "out"), *options])
        with pytest.raises(SystemExit, match=message):
            make_assignments.main()
    assert not (tmp_path / "out").exists(), "nothing is written before"


def test_notebooks_with_drawn_numbers_are_known(tmp_path: Path) -> None:
    cell = new_code_cell("n = 5  # 0..99", metadata={"nbgrader": {}, "book": {"numbers": "ex"}})
    for student in (b"", KEY):
        book = copy.deepcopy(new_notebook(cells=[cell]))
        if student:
            variants.put_in(book, KEY, "ada")
        (tmp_path / "in.ipynb").write_text(json.dumps(book), "utf-8")
        assert variants.is_drawn(tmp_path / "in.ipynb") == bool(student)


def test_numbers_of_somebody_else_are_told_and_put_right(tmp_path: Path) -> None:
    role = {"grade": False, "solution": False, "locked": True, "grade_id": "ex-numbers"}
    cell = new_code_cell("n = 5  # 0..99", id="ex-numbers", metadata={"nbgrader": role, "book": {"numbers": "ex"}})
    written = new_notebook(cells=[cell])
    adas, bobs = copy.deepcopy(written), copy.deepcopy(written)
    variants.put_in(adas, KEY, "ada")
    variants.put_in(bobs, KEY, "bob")
    (tmp_path / "in.ipynb").write_text(json.dumps(adas), "utf-8")
    for release, notes in ((adas, []), (bobs, [OTHER_NUMBERS]), (written, [OTHER_NUMBERS])):
        found, told = rebuild(release, read(tmp_path / "in.ipynb"))
        assert [one.source for one in found.cells] == [one.source for one in release.cells]
        assert told == [f"ex-numbers: {note}" for note in notes]


@pytest.fixture(scope="module")
def varied(assignments: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The assignments of one chapter, with a variant for each of three students."""
    folder = tmp_path_factory.mktemp("varied")
    for kind in ("source", "release"):
        shutil.copytree(assignments / kind / "attention", folder / kind / "attention")
    make_assignments.write_variants(folder, ["attention"], KEY, ["ada", "bob", "cid"])
    return folder


@pytest.mark.slow
def test_a_students_release_differs_in_numbers_alone_and_holds_no_key(varied: Path) -> None:
    release = zoo.load(varied / "release" / "attention" / "attention.ipynb")
    for student in ("ada", "bob", "cid"):
        file = varied / "variants" / "attention" / f"{student}_attention.ipynb"
        assert KEY.decode() not in file.read_text("utf-8")
        cells = zip(release["cells"], zoo.load(file)["cells"], strict=True)
        [(was, now), (_, check)] = [(was, now) for was, now in cells if was != now]
        assert check["id"] == "ex-attention-predict-check"
        numbers = variants.drawn(DRAWN["ex-attention-predict"], KEY, student, "ex-attention-predict")
        assert (was["id"], now["source"]) == ("ex-attention-predict-numbers", f"{variants.HEAD}# {numbers}")
        assert "".join(was["source"]) == "num_keys = 5", "the plain hand-out does not show what could be drawn"


@pytest.mark.deep
def test_the_answer_of_a_neighbour_and_of_the_book_lose_what_ones_own_earns(varied: Path, tmp_path: Path) -> None:
    label, folder, out = "ex-attention-predict", tmp_path / "in", tmp_path / "out"
    own = {name: values(variants.drawn(DRAWN[label], KEY, name, label))["num_keys"] for name in ("ada", "bob")}
    assert own["ada"] != own["bob"]
    handed_out = zoo.load(varied / "variants" / "attention" / "ada_attention.ipynb")
    adas = zoo.answered(handed_out, {label: f"predicted_weights = {[1 / own['ada']] * own['ada']}"})
    zoo.hand_in(folder, "ada_attention", adas)
    zoo.hand_in(folder, "bob_attention", adas)
    book = WITH_NUMBERS[label].cells["solution"]
    its_own = zoo.load(varied / "variants" / "attention" / "cid_attention.ipynb")
    zoo.hand_in(folder, "cid_attention", zoo.answered(its_own, {label: book}))
    (tmp_path / "class.key").write_bytes(KEY)
    (tmp_path / "class.csv").write_text("student\nada\nbob\n", "utf-8")
    with pytest.raises(AssertionError, match="--variants"):  # forgotten
        zoo.grade(folder, varied, out)
    options = ("--at-once", "1", "--cell-seconds", "60", "--variants", str(tmp_path / "class.key"))
    with pytest.raises(AssertionError, match="--class"):
        zoo.grade(folder, varied, out, *options)
    options += ("--class", str(tmp_path / "class.csv"))
    with pytest.raises(AssertionError, match="cid_attention"):
        zoo.grade(folder, varied, out, *options)
    (tmp_path / "class.csv").write_text("student\nada\nbob\ncid\n", "utf-8")
    zoo.grade(folder, varied, out, *options)
    with (out / "marks" / "attention.csv").open(encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    marks = {row["student"]: float(row[f"{label}-check"]) + float(row[f"{label}-hidden"]) for row in rows}
    assert marks == {"ada": 2, "bob": 0, "cid": 0}
    records = {name: zoo.record(out, "attention", name) for name in marks}
    assert {name: record["events"] for name, record in records.items()} == {
        "ada": [],
        "bob": [f"{label}-numbers: {OTHER_NUMBERS}"],
        "cid": records["cid"]["events"],
    }
    assert "num_keys" in records["cid"]["events"][0]
    assert not [path for path in out.rglob("*") if path.is_file() and KEY in path.read_bytes()], "the key is nowhere"
    assert not re.search(r"\b0 of", zoo.grade(folder, varied, out, *options))
    (tmp_path / "class.key").write_bytes(KEY[::-1])
    for without in (options, options[:4]):
        with pytest.raises(AssertionError, match="variants"):
            zoo.grade(folder, varied, out, *without)
