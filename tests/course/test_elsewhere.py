"""The marking of a chapter in other graders: what they are given, and what they get back."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zoo
from answers import POOL

from workshop.course import export_autograder, variants
from workshop.course.assignment_notebook import assignment
from workshop.course.grading import elsewhere
from workshop.course.grading.marks import Marks
from workshop.course.grading.submissions import Submission
from workshop.course.make_assignments import chapters
from workshop.course.try_exercises import prepared, run, trials
from workshop.site.address import configured

ROOT = Path(__file__).resolve().parents[2]

# The formats, as the published descriptions say that grading/elsewhere.py names.
RUNNER = {
    "CLASSROOM": "nlp",
    "ASSIGNMENT": "attention",
    "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
    "COMMIT_URL": "https://github.com/o/r/commit/a1b2c3d",
    "RELEASE_URL": "https://github.com/o/r/releases/tag/x",
}


def marks(**changes: Any) -> Marks:
    """A submission: one exercise passed, of one only the visible check, one written answer."""
    points = {"a-check": 2.0, "a-hidden": 2.0, "b-check": 1.0, "b-hidden": 0.0, "c": 0.0}
    maximum = {"a-check": 2.0, "a-hidden": 2.0, "b-check": 1.0, "b-hidden": 1.0, "c": 6.0}
    outcomes = {"a-check": "Right.", "a-hidden": "", "b-check": "Right.", "b-hidden": "of -1 you make 1"}
    submission = Submission(Path("x.ipynb"), "student", "attention")
    return Marks(submission, points, maximum, ["c"], outcomes, **changes)


def test_gradescope_gets_each_check_with_its_message() -> None:
    answer = {"c": "Because of the scale."}
    result = elsewhere.gradescope(marks(events=["a-check: stopped after 20 s"], written=answer), 12.3)
    *checks, written = result.pop("tests")
    fields = ("name", "score", "max_score", "output", "visibility")
    assert [tuple(test[field] for field in fields) for test in checks] == [
        ("a, check", 2, 2, "Right.", "visible"),
        ("a, further checks", 2, 2, "", "after_due_date"),
        ("b, check", 1, 1, "Right.", "visible"),
        ("b, further checks", 0, 1, "of -1 you make 1", "after_due_date"),
    ]
    assert all(set(test) == set(fields) for test in (*checks, written))
    assert "stopped after 20 s" in result.pop("output")
    assert result == {"execution_time": 12, "stdout_visibility": "hidden"}
    assert (written["name"], written["score"], written["max_score"], written["visibility"]) == ("c", 0, 0, "visible")
    assert written["output"].endswith("Because of the scale."), "for who marks it there"


def test_classroom_50_gets_each_check_and_no_message_of_a_hidden_one() -> None:
    result = elsewhere.classroom50(marks(), RUNNER)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result.pop("datetime"))
    fields = ("test-name", "passed", "score", "max-score", "output")
    tests = [
        ("a, check", True, 2, 2, "Right."),
        ("a, further checks", True, 2, 2, ""),
        ("b, check", True, 1, 1, "Right."),
        ("b, further checks", False, 0, 1, ""),
    ]
    assert result.pop("tests") == [dict(zip(fields, test, strict=True)) for test in tests]
    assert "c, 6 points" in result.pop("remarks")
    assert result == {
        "schema": "classroom50/result/v1",
        **{"classroom": "nlp", "assignment": "attention", "submission": RUNNER["SUBMISSION_TAG"]},
        **{"commit": RUNNER["COMMIT_URL"], "release": RUNNER["RELEASE_URL"], "review": RUNNER["COMMIT_URL"]},
        **{"score": 5, "max-score": 6},
    }


def test_outside_its_runner_classroom_50_gets_nothing() -> None:
    with pytest.raises(KeyError, match="COMMIT_URL"):
        elsewhere.classroom50(marks(), {name: value for name, value in RUNNER.items() if name != "COMMIT_URL"})


def grader_of(archive: Path, folder: Path) -> Path:
    """The packed files where the grader puts them, with this machine's environments."""
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
        for entry in packed.infolist():
            (folder / entry.filename).chmod(entry.external_attr >> 16 or 0o644)
    for name in (".venv", ".venv-grading"):
        (folder / name).symlink_to((ROOT / name).resolve())
    return folder


# What each is, and the exercises of the chapter on attention whose points it loses; the whole zoo goes through `make
# grade` in test_grading.py.
ROWS = {"right": (), "edited-tests": ("ex-attention-write",), "nothing": zoo.ALL_OF_IT, "drawn": zoo.ALL_OF_IT}


@pytest.mark.deep
def test_gradescopes_zip_marks_good_and_hostile_submissions(assignments: Path, tmp_path: Path) -> None:
    archive = export_autograder.for_gradescope("attention", assignments, tmp_path / "need" / "not" / "be" / "there")
    with zipfile.ZipFile(archive) as packed:
        assert {"setup.sh", "run_autograder"} <= set(packed.namelist()), "at the root of the archive"
        assert "Update Autograder" in packed.read(export_autograder.GUIDE).decode(), "the next steps"
        assert packed.getinfo("run_autograder").external_attr >> 16 & 0o111, "may be run"
    place = tmp_path / "autograder"
    source = grader_of(archive, place / "source")
    release = zoo.load(assignments / "release" / "attention" / "attention.ipynb")
    exercises = chapters(["attention"])["attention"][2]
    right = zoo.solutions(exercises)
    # Without a sandbox, as in a container that allows none: this machine's environments know another folder's package,
    # which the copy's sandbox would not show.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bash").symlink_to(shutil.which("bash") or "/bin/bash")
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "MPLBACKEND"}}
    environment["PATH"] = str(tmp_path / "bin")
    for name, loses in ROWS.items():
        submission = place / name / "submission"
        submission.mkdir(parents=True)
        (place / name / "results").mkdir()
        (place / name / "source").symlink_to(source)
        if name == "right":
            zoo.hand_in(submission, "my homework", zoo.answered(release, right))
            zoo.hand_in(submission / "old", "attention (1)", release)  # as it was handed out, and newer
            os.utime(submission / "my homework.ipynb", (0, 0))
        elif name == "drawn":
            own = zoo.answered(release, right)
            variants.put_in(own, bytes(32), "ada")
            zoo.hand_in(submission, "attention", own)
        elif name != "nothing":
            zoo.hand_in(submission, "attention", zoo.ZOO[name].make(release, right))
        command = [source / "run_autograder"]
        given = environment | {"AUTOGRADER_ROOT": str(place / name), "JUPYTER_PREFER_ENV_PATH": "1"}
        done = subprocess.run(command, env=given, capture_output=True, text=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        result = json.loads((place / name / "results" / "results.json").read_text("utf-8"))
        machine = [one for one in exercises if one.is_graded_by_machine]
        expected = sum(one.points for one in machine if one.label not in loses)
        assert sum(test["score"] for test in result["tests"]) == expected, (name, result)
        assert sum(test["max_score"] for test in result["tests"]) == sum(one.points for one in machine)
        assert ("no notebook" in result["output"]) == (name == "nothing")
        assert ("drawn for one student" in result["output"]) == (name == "drawn")
        assert "--class" not in result["output"], "no option that this form has not"
        named = "Graded: my homework.ipynb; not graded: attention (1).ipynb" in result["output"]
        assert named == (name == "right"), "whoever handed in two sees which one counts"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout of git")
@pytest.mark.parametrize("name", ["attention-gradescope.zip", "x/attention-otter/tests/a.py", "winter 2027.csv"])
def test_git_leaves_solutions_and_class_lists_alone(name: str) -> None:
    assert subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("form", export_autograder.FORMS)
def test_each_form_says_its_next_three_steps_where_it_was_packed(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(export_autograder.FORMS, form, lambda *_given: tmp_path / "packed")
    monkeypatch.setattr(export_autograder, "check_assignment", lambda *_given: None)
    monkeypatch.setattr(sys, "argv", ["export_autograder", form, "masks"])
    export_autograder.main()
    said = capsys.readouterr().out
    assert re.findall(r"^\d\.", said, re.MULTILINE) == ["1.", "2.", "3."]
    assert "masks.ipynb" in said
    assert "{" not in said


def test_a_chapter_without_an_assignment_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="poetry"):
        export_autograder.check_assignment("poetry", tmp_path)


class OttersTestCase:
    """What a test file imports: a decorator that keeps a function with its points, as Otter's own does."""

    def __init__(self, name: str, points: float, hidden: bool):
        self.name, self.points, self.hidden = name, points, hidden

    def __call__(self, function: Callable[[dict[str, Any]], None]) -> "OttersTestCase":
        self.function = function
        return self


def otters_points(source: str, names: dict[str, Any]) -> float:
    """What the cases of a test file give together: Otter calls each one with the student's names as `env`."""
    module: dict[str, Any] = {}
    exec(compile(source, "<test file>", "exec"), module)
    points = 0.0
    for case in (one for one in module.values() if isinstance(one, OttersTestCase)):
        with contextlib.suppress(Exception):
            case.function(names)
            points += case.points
    return points


@pytest.mark.slow
@pytest.mark.parametrize("chapter", ["attention", "masks", "decoding"])
def test_otters_test_files_give_each_answer_its_points(chapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the form of https://otter-grader.readthedocs.io/en/latest/test_files/python_format.html (exception-based)."""
    test_files = types.ModuleType("otter.test_files")
    monkeypatch.setattr(test_files, "test_case", OttersTestCase, raising=False)
    monkeypatch.setitem(sys.modules, "otter", types.ModuleType("otter"))
    monkeypatch.setitem(sys.modules, "otter.test_files", test_files)
    page, plain, exercises = chapters([chapter])[chapter]
    notebook = assignment(page, plain, configured(ROOT))
    machine = [one for one in exercises if one.is_graded_by_machine]
    for exercise in machine:
        cells = [one for one in notebook.cells if one.metadata.get("book", {}).get("answer") == exercise.label]
        source = export_autograder.otter_test(exercise.label, cells)
        assert "OK_FORMAT = False" in source
        assert source.count("hidden=True") == source.count("hidden=False") == 1
        with prepared(page, plain, exercise) as names:
            pool = [(one["code"], one["code"], one["earns"]) for one in POOL[exercise.label]]
            for what, answer, expected in [*trials(exercise), *pool]:
                own = dict(names)
                run(answer, own)
                before = set(own)
                assert otters_points(source, own) == expected, (exercise.label, what)
                assert set(own) == before, "a check leaves no name behind"


@pytest.mark.deep
def test_the_folder_for_otter_is_whole(assignments: Path, tmp_path: Path) -> None:
    folder = export_autograder.for_otter("attention", assignments, tmp_path)
    labels = [one.label for one in chapters(["attention"])["attention"][2] if one.is_graded_by_machine]
    assert sorted(path.name for path in (folder / "tests").iterdir()) == sorted(f"{label}.py" for label in labels)
    notebook = zoo.load(folder / "attention.ipynb")
    beside = zip(notebook["cells"], notebook["cells"][1:], strict=False)
    # Each test before its check: in the student's process that leaves nothing of an iterator.
    tested = {after["id"]: cell["metadata"]["otter"] for cell, after in beside if "otter" in cell["metadata"]}
    assert tested == {f"{label}-check": {"tests": [label]} for label in labels}
    assert "HIDDEN TESTS" not in json.dumps(notebook)
    assert "@ git+https://" in (folder / "requirements.txt").read_text("utf-8")
    guide = (folder / export_autograder.GUIDE).read_text("utf-8")
    assert "otter generate -t tests -r requirements.txt" in guide
    assert guide == export_autograder.next_steps("otter", "attention")
    with pytest.raises(SystemExit, match="live"):  # one written answer alone
        export_autograder.for_otter("live", assignments, tmp_path)


@pytest.mark.deep
def test_the_folder_for_classroom_50_is_whole(assignments: Path, tmp_path: Path) -> None:
    folder = export_autograder.for_classroom50("attention", assignments, tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == [export_autograder.GUIDE, "autograder.py", "book.zip"]
    compile((folder / "autograder.py").read_text("utf-8"), "autograder.py", "exec")
    with zipfile.ZipFile(folder / "book.zip") as packed:
        names = set(packed.namelist())
    assert {"workshop/course/grade_one.py", "assignments/source/attention/attention.ipynb"} <= names
