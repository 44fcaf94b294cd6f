"""The whole way through nbgrader: from the chapters to assignments, from submissions to marks and feedback.

Needs .venv-grading (`make grading-env`, which `make test` runs). Without it the tests are skipped, or fail where
TRANSFORMER_LIB_REQUIRE_GRADING=1.
"""

import contextlib
import csv
import html
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zoo
from filelock import FileLock
from playwright.sync_api import Browser

from workshop.course import make_assignments
from workshop.course.grading.sandbox import missing
from workshop.course.make_assignments import chapters

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
EXERCISES = {name: exercises for name, (_, _, exercises) in chapters().items()}
POINTS = {one.label: one.points for one in EXERCISES["attention"] if one.is_graded_by_machine}
[WRITTEN] = [one for one in EXERCISES["attention"] if not one.is_graded_by_machine]
# What loads or runs something in a page: tags, addresses, handlers of events.
ACTIVE = (
    r"<script|<link|<meta http-equiv=refresh|<svg|<iframe|@import|url\("
    r"|<[^<>]*\bsrc=[\"']?(?!data:image/png;base64,[\w+/=]*\")"
    r"|<[^<>]*\bhref=[\"']?\s*(?:javascript|data):|<[^<>]*\son\w+=(?!\"toggle_name)"
)
# A typical mistake of each exercise; test_exercises.py tries the others in process.
MISTAKES, LEFT = zoo.mistakes(EXERCISES["attention"])
ALL, MOST = sum(POINTS.values()), sum(POINTS.values()) + WRITTEN.points
# One after the other within a test, since two tests run at a time; cells get less time than a class would have.
Visit = tuple[Path, str]  # the folder of marks, and what was printed
ONE_BY_ONE = ("--at-once", "1", "--cell-seconds", "60")


def released(assignments: Path, chapter: str) -> zoo.Notebook:
    return zoo.load(assignments / "release" / chapter / f"{chapter}.ipynb")


def marks(out: Path, chapter: str) -> dict[str, dict[str, str]]:
    with (out / "marks" / f"{chapter}.csv").open(encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def report_of(out: Path) -> str:
    return (out / "report-attention.md").read_text("utf-8")


def earned(row: dict[str, str], exercises: list[Any]) -> dict[str, float]:
    """Exercise → the points that its checks gave."""
    machine = [one.label for one in exercises if one.is_graded_by_machine]
    return {label: float(row[f"{label}-check"]) + float(row[f"{label}-hidden"]) for label in machine}


@pytest.mark.deep
def test_the_solutions_of_every_chapter_earn_all_points(assignments: Path, tmp_path: Path) -> None:
    """That a chapter's assignment has everything that its solutions need shows here alone."""
    folder, out = tmp_path / "in", tmp_path / "out"
    for name, exercises in EXERCISES.items():
        zoo.hand_in(folder, f"ada_{name}", zoo.answered(released(assignments, name), zoo.solutions(exercises)))
    zoo.grade(folder, assignments, out, "--cell-seconds", "60")
    for name, exercises in EXERCISES.items():
        record = zoo.record(out, name, "ada")
        points = {one.label: one.points for one in exercises if one.is_graded_by_machine}
        assert earned(marks(out, name)["ada"], exercises) == points, (name, record["outcomes"])
        assert record["events"] == []


needs_sandbox = pytest.mark.skipif(bool(missing(zoo.KERNEL_PYTHON)), reason=missing(zoo.KERNEL_PYTHON))


@pytest.fixture(scope="module")
def visited(request: pytest.FixtureRequest, assignments: Path, of_the_run: Path) -> Visit:
    """The zoo, or its rest for the deep tests, graded once for all processes of the test run."""
    is_deep = getattr(request, "param", False)
    shared = of_the_run / f"zoo-{is_deep}"
    said = shared / "said.txt"
    with FileLock(f"{shared}.lock"):
        if not said.exists():
            printed = visit(assignments, shared / "in", shared / "out", is_deep)
            said.write_text(printed, "utf-8")
    return shared / "out", said.read_text("utf-8")


def visit(assignments: Path, folder: Path, out: Path, is_deep: bool) -> str:
    """Grade one part of the zoo; what the grader printed."""
    release, right = released(assignments, "attention"), zoo.solutions(EXERCISES["attention"])
    is_walled = not missing(zoo.KERNEL_PYTHON)
    for name, animal in zoo.ZOO.items():
        if is_deep == (name not in zoo.OF_EACH_KIND) and (is_walled or not animal.is_held_by_walls):
            zoo.hand_in(folder, f"{name}_attention", animal.make(release, right))
    zoo.MADE_BY_A_PICKLE.unlink(missing_ok=True)
    zoo.hand_in(folder, "mistakes_attention", zoo.answered(release, MISTAKES))
    others = [name for name in EXERCISES if name != "attention"]
    if others:
        zoo.hand_in(folder / "other" / "attention", "attention", released(assignments, others[0]))
    with socket.create_server(("127.0.0.1", 0)) as server:
        reached = zoo.REACHED.replace("{port}", str(server.getsockname()[1]))
        if is_walled:
            zoo.hand_in(folder, "reached_attention", zoo.answered(release, {**right, "ex-attention-predict": reached}))
        return zoo.grade(folder, assignments, out, "--cell-seconds", "10", "--at-once", "2")  # some only wait


@pytest.mark.parametrize(
    ("visited", "name"),
    [
        pytest.param(name not in zoo.OF_EACH_KIND, name, marks=[] if name in zoo.OF_EACH_KIND else pytest.mark.deep)
        for name in zoo.ZOO
    ],
    indirect=["visited"],
)
def test_a_hostile_submission_gets_a_fair_mark(visited: Visit, name: str) -> None:
    out, _ = visited
    animal = zoo.ZOO[name]
    if animal.is_held_by_walls and (why := missing(zoo.KERNEL_PYTHON)):
        pytest.skip(why)
    record = zoo.record(out, "attention", name)
    assert record["error"] == ""
    expected = {label: points * (label not in animal.loses) for label, points in POINTS.items()}
    row = marks(out, "attention")[name]
    assert earned(row, EXERCISES["attention"]) == expected, record
    assert float(row["points"]) == sum(expected.values()), "nobody has marked a written answer yet"
    assert animal.event in "; ".join(record["events"])
    if animal.event:
        assert animal.event in (out / "report-attention.md").read_text("utf-8")


# Their way through nbgrader is the same for the mistakes of every chapter.
def test_each_answer_earns_what_the_chapter_says(visited: Visit) -> None:
    out, _ = visited
    row, record = marks(out, "attention")["mistakes"], zoo.record(out, "attention", "mistakes")
    assert earned(row, EXERCISES["attention"]) == LEFT, record["outcomes"]
    assert any(0 < LEFT[label] < points for label, points in POINTS.items()), "of one a part"
    assert record["events"] == []
    assert row[WRITTEN.label] == "0.0"
    assert row["not marked yet"] == "", "an answer that was not given needs no marking"


@needs_sandbox
def test_a_submission_sees_itself_alone(visited: Visit) -> None:
    out, said = visited
    assert "NO SANDBOX" not in said
    outcomes = zoo.record(out, "attention", "reached")["outcomes"]
    points = earned(marks(out, "attention")["reached"], EXERCISES["attention"])
    assert points["ex-attention-predict"] == POINTS["ex-attention-predict"], outcomes


@needs_sandbox
def test_no_process_of_a_submission_outlives_it(visited: Visit) -> None:
    programs = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert programs or not Path("/proc/self").exists()
    assert not [line for line in programs if zoo.SLEEP.encode() in line]


def test_the_grader_loads_no_pickle_of_a_submission(visited: Visit) -> None:
    assert not zoo.MADE_BY_A_PICKLE.exists()


def test_a_flood_of_output_stays_small_on_disk(visited: Visit) -> None:
    out, _ = visited
    for folder in ("autograded", "feedback"):
        size = sum(path.stat().st_size for path in (out / folder / "flood").rglob("*.*"))
        assert size < 500_000, (folder, size)


def test_the_notebook_of_another_chapter_is_told(visited: Visit) -> None:
    out, _ = visited
    [event] = zoo.record(out, "attention", "other")["events"]
    assert next(name for name in EXERCISES if name != "attention") in event
    assert float(marks(out, "attention")["other"]["points"]) == 0


def test_feedback_teaches_and_keeps_the_hidden_checks(visited: Visit) -> None:
    out, _ = visited
    pages = {path.parent.parent.name: path.read_text("utf-8") for path in (out / "feedback").glob("*/*/*.html")}
    harmless = {name for name in zoo.OF_EACH_KIND if not zoo.ZOO[name].is_held_by_walls}
    assert harmless <= set(pages)
    assert "Your function returns nothing yet." in pages["untouched"]
    assert "Not answered" in pages["untouched"]
    assert "Not answered" not in pages["stripped"]
    assert pages["not-json"].count("Not read: ") == len(POINTS), "it may hold answers; nobody could read them"
    assert "Not answered" not in pages["not-json"]
    assert "Right: it equals the loops." in pages["stripped"]
    hidden = [one.cells["hidden-check"] for one in EXERCISES["attention"] if one.is_graded_by_machine]
    for student, page in pages.items():
        assert not re.search(ACTIVE, page), student
        assert "default-src 'none'" in page
        assert len(page) < 200_000, student
        text = html.unescape(re.sub(r"<[^>]+>", "", page))
        own = "\n".join(MISTAKES.values()) if student == "mistakes" else ""  # a page shows the student's answers
        for source in hidden:
            lines = [line.strip() for line in source.splitlines() if len(line.strip()) > 30]
            assert not [line for line in lines if line in text and line not in own], student


def test_axe_finds_nothing_in_feedback(visited: Visit, browser: Browser) -> None:
    out, _ = visited
    axe = (ROOT / "tests" / "site" / "vendor" / "axe.min.js").read_text("utf-8")
    page = browser.new_page()
    for name, width in (("untouched", 390), ("stripped", 1280), ("flood", 390)):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto((out / "feedback" / name / "attention" / "attention.html").as_uri())
        page.evaluate(axe)
        found = page.evaluate("async () => (await axe.run({preload: false})).violations")
        assert [(fault["id"], [node["target"] for node in fault["nodes"]][:3]) for fault in found] == []
    page.close()


def test_a_hidden_check_is_in_no_process_of_a_submission(visited: Visit) -> None:
    out, _ = visited
    said = zoo.record(out, "attention", "shows-the-hidden-check")["outcomes"]["ex-attention-write-hidden"]
    assert "ValueError" in said, "it searched its process, and raised what it found"
    [exercise] = [one for one in EXERCISES["attention"] if one.label == "ex-attention-write"]
    lines = [line.strip() for line in exercise.cells["hidden-check"].splitlines() if len(line.strip()) > 20]
    assert lines
    assert not [line for line in lines if line in said]


IN_GRADING = """
import os, sys
from pathlib import Path
from nbformat.v4 import new_code_cell, new_notebook, new_output
from workshop.course import variants
from workshop.course.grade import keep_key, refuse_drawn
from workshop.course.grade_one import chosen, notebooks
from workshop.course.grading.export import write_feedback
from workshop.course.grading.feedback import ROOT, Presentation
from workshop.course.grading.marks import Marks
from workshop.course.grading.rebuild import UNTOUCHED
from workshop.course.grading.submissions import Submission

answer = new_code_cell(metadata={"nbgrader": {"solution": True, "grade_id": "ex-f"}})
check = new_code_cell(metadata={"nbgrader": {"grade": True}, "book": {"answer": "ex-f"}})
answer.outputs = [new_output("error", ename="SyntaxError", evalue="line 2")]
check.outputs = [new_output("error", ename="NameError", evalue="name 'f' is not defined")]
shown, _ = Presentation().preprocess(new_notebook(cells=[answer, check]), {})
print(shown.cells[1].metadata.outcome)
check.outputs = [new_output("error", ename="AssertionError", evalue="Put a number into f.")]
shown, _ = Presentation().preprocess(new_notebook(cells=[answer, check]), {})
print(shown.cells[1].metadata.outcome)
hidden = "### BEGIN HIDDEN TESTS\\n### END HIDDEN TESTS"
answer.outputs, check.outputs = [], [new_output("error", ename="KeyError", evalue=f"{ROOT}/x")]
for check.metadata["unanswered"] in (UNTOUCHED, ""):
    check.source = hidden
    shown, _ = Presentation().preprocess(new_notebook(cells=[answer, check]), {})
    print(shown.cells[1].metadata.outcome)
home = Path(sys.argv[1])
for number, text in enumerate([variants.HEAD, variants.HEAD, ""]):
    (home / f"{number}.ipynb").write_text(text, "utf-8")
    os.utime(home / f"{number}.ipynb", (number, number))
one, two, three = (Submission(home / f"{number}.ipynb", str(number), "attention") for number in range(3))
lost = Marks(one, {}, {})  # no notebook of it ran
write_feedback(home, "attention", [lost])
print(lost.error)
refuse_drawn([one, three, three])
for folder in (home, home / "in" / ".."):
    print(notebooks(folder, "attention")[0].name)
for name in ("Attention.ipynb", "in/scratch.ipynb"):  # the newest, after an upload
    (home / name).touch()
print(chosen(notebooks(home, "attention"), "attention"))
keep_key(home, ["attention"], b"of a class")
keep_key(home, ["masks"], b"")
for chapters, key in ((["masks", "attention"], b""), (["attention"], b"of another"), (["attention"], b"of a class")):
    try:
        keep_key(home, chapters, key)
    except SystemExit as error:
        print(error)
refuse_drawn([one, two, three])
"""


def test_what_stands_before_and_after_nbgrader(needs_grading: None, tmp_path: Path) -> None:
    home = tmp_path / ".cache"
    (home / "in").mkdir(parents=True)
    command = [zoo.PYTHON, "-c", IN_GRADING, home]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    outcome, both, empty, tried, lost, *newest, by_name, without, another = done.stdout.splitlines()
    for said in (without, another):
        assert said.startswith("error: attention in "), "the key is that of a chapter; masks was graded without"
    assert empty.startswith("Not answered")
    assert tried == "KeyError: …/x", "and no folder of this machine"
    assert "feedback" in lost, "who gets no page is told, and the others get theirs"
    assert "SyntaxError" in outcome, "a check that misses a name says why it is missing"
    assert both.startswith("Put a number"), "what the check says, and last what comes first"
    assert both.endswith("SyntaxError: line 2")
    assert newest == ["2.ipynb"] * 2, "dots above the folder hide nothing"
    assert re.match(r"Graded: Attention\.ipynb; not graded: scratch\.ipynb, 2", by_name), "it counts, and is named"
    assert done.returncode == 1
    assert "--variants" in done.stderr, "right answers would lose their points"


@pytest.fixture(scope="module")
def form(visited: Visit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Callable[[str], str]]]:
    """nbgrader's form on a port of its own: its marks, and a function from the end of an address to the whole."""
    temporary = tmp_path_factory.mktemp("temporary")
    out = tmp_path_factory.mktemp("form") / "marks"
    shutil.copytree(visited[0], out)  # other tests read the marks that nobody has given by hand
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = [f"--ServerApp.port={port}", "--ServerApp.open_browser=False", "--IdentityProvider.token=word"]
    server = subprocess.Popen(
        [zoo.PYTHON, "-m", "workshop.course.mark", out, *options],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(temporary)},
    )

    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield out, lambda end: f"http://127.0.0.1:{port}/formgrader/{end}?token=word"
    finally:
        server.terminate()
        server.wait(30)
    assert list(temporary.iterdir()) == []


def of_writes_scripts(out: Path) -> str:
    """Where the form shows the submission that writes scripts."""
    with sqlite3.connect(out / "gradebook.db") as book:
        [[submission]] = book.execute(
            "select one.id from submitted_notebook one join submitted_assignment whole on one.assignment_id = whole.id "
            "where whole.student_id = 'writes-scripts'"
        )
    return f"submissions/{submission}/"


def test_the_form_runs_and_fetches_nothing_that_a_student_wrote(form: tuple[Path, Callable[[str], str]]) -> None:
    out, address = form

    def page(address: str) -> tuple[str, str]:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.read().decode(), answer.headers["Content-Security-Policy"]

    table, policy = page(address("gradebook"))
    text, policy_of_submission = page(address(of_writes_scripts(out)))
    assert policy == policy_of_submission
    assert re.match(r"default-src 'none'; script-src 'nonce-([\w-]{20,})'; ", policy)
    word = policy.split("'nonce-")[1].split("'")[0]
    assert "unsafe-inline" not in policy.replace("style-src 'self' 'unsafe-inline'", "")
    assert table.count("<script") == table.count(f'<script nonce="{word}"') > 0
    head, body = text.split("<body>", 1)
    assert head.count("<script") == head.count(f'<script nonce="{word}"') > 0
    assert text.count(word) == head.count(word) + 1, "nbgrader's own script in its bar"
    assert body.count("<script") == 1
    assert not re.search(ACTIVE.replace("<script|<link|", ""), body)
    assert "https://cdnjs" not in text
    assert "&lt;script&gt;document.title = 1&lt;/script&gt;" in body
    assert "<mfrac>" in body, "formulas are set without MathJax"
    assert "extra" not in body.lower(), "no field whose points would exceed the most"
    assert html.escape(WRITTEN.rubric[0][1].split("`")[0].split("$")[0]) in body, "how to mark it stands beside it"


def test_in_a_browser_the_form_takes_marks_and_a_submission_runs_nothing(
    form: tuple[Path, Callable[[str], str]], browser: Browser
) -> None:
    out, address = form
    page = browser.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address(of_writes_scripts(out)))
    page.wait_for_load_state("networkidle")
    page.on("dialog", lambda dialog: said.append(dialog.message) or dialog.accept())
    title, [own] = page.title(), {url.split("/formgrader")[0] for url in asked if "/formgrader" in url}
    field = page.locator("input.score:not([disabled])").last
    for points in ("3", "99", "3"):
        with page.expect_response(lambda answer: answer.request.method == "PUT") as put:
            field.fill(points)
            field.press("Tab")
        assert put.value.ok
    page.close()
    assert ["99" in words for words in said] == [True], "more than there is to give"
    assert title != "1"
    assert asked
    assert [url for url in asked if not url.startswith((f"{own}/", "data:image/"))] == []
    with sqlite3.connect(out / "gradebook.db") as book:
        assert book.execute("select count(*) from grade where manual_score = 3").fetchone() == (1,)


def test_files_for_course_systems(visited: Visit) -> None:
    """Their rows are tried in test_submissions.py."""
    rows = {"moodle": f"stripped,stripped,{ALL:.1f},{MOST:.1f},", "canvas": f"stripped,,stripped,,{ALL:.1f}"}
    for system, row in rows.items():
        assert f"\n{row}" in (visited[0] / "marks" / f"attention-{system}.csv").read_text("utf-8")


BY_HAND = """update grade set manual_score = 1
where cell_id in (select id from base_cell where name = 'ex-attention-predict-check')
and notebook_id in (
  select one.id from submitted_notebook one join submitted_assignment whole on one.assignment_id = whole.id
  where whole.student_id = 'bob')"""


@pytest.mark.deep
def test_a_second_run_grades_what_changed_and_keeps_marks_by_hand(assignments: Path, tmp_path: Path) -> None:
    release, right = released(assignments, "attention"), zoo.solutions(EXERCISES["attention"])
    folder, out = tmp_path / "in", tmp_path / "out"
    zoo.hand_in(folder, "ada", zoo.answered(release, {**right, "ex-attention-design": "Train two models."}))
    for student in ("bob", "eve"):
        zoo.hand_in(folder, student, release)
    assert re.search("before: 0", zoo.grade(folder, assignments, out, *ONE_BY_ONE))
    (out / "records" / "attention" / "eve.json").write_text("{broken", "utf-8")
    assert marks(out, "attention")["ada"]["not marked yet"] == "ex-attention-design"
    first = (out / "records" / "attention" / "ada.json").stat().st_mtime_ns
    with sqlite3.connect(out / "gradebook.db") as book:  # what the form for written answers does
        book.execute("UPDATE grade SET manual_score = 5, needs_manual_grade = 0 WHERE needs_manual_grade")
        book.execute(BY_HAND)
        book.execute(BY_HAND.replace("= 1\n", "= 0\n").replace("'bob'", "'ada'"))
        book.execute(
            "update comment set manual_comment = 'Copied <b>.' where cell_id in "
            "(select id from base_cell where name = 'ex-attention-predict')"
        )
    ada = out / "feedback" / "ada" / "attention" / "attention.html"
    page = html.unescape(ada.read_text("utf-8"))
    assert f"– of {WRITTEN.points}" in page, "not marked is not 0"
    assert marks(out, "attention")["ada"][WRITTEN.label] == "–"
    table = out / "marks" / "attention.csv"
    table.write_text(table.read_text("utf-8").replace("eve,,0.0", "eve,,9.0"), "utf-8")
    zoo.hand_in(folder, "bob", zoo.answered(release, right))
    said = zoo.grade(folder, assignments, out, *ONE_BY_ONE)
    [kept] = out.glob("marks/attention-edited-*.csv")
    assert "eve,,9.0" in kept.read_text("utf-8"), "what somebody typed into the table is not lost"
    assert all(kept.name in text for text in (said, report_of(out)))
    page = html.unescape(ada.read_text("utf-8"))
    assert "marked by hand" in page
    assert "Copied <b>" in page
    assert "Copied <b>" not in ada.read_text("utf-8"), "a reason is text"
    assert "a person gave 0" in marks(out, "attention")["ada"]["notes"]
    assert marks(out, "attention")["bob"]["not marked yet"] == "ex-attention-predict-check"
    page = (out / "feedback" / "bob" / "attention" / "attention.html").read_text("utf-8")
    assert "written answers" not in page, "he wrote none"
    assert re.search("before: 1", said)
    found = marks(out, "attention")
    lost = 5 - POINTS["ex-attention-predict"] // 2
    assert {name: float(row["points"]) for name, row in found.items()} == {"ada": ALL + lost, "bob": ALL, "eve": 0}
    assert found["ada"]["not marked yet"] == ""
    assert (out / "records" / "attention" / "ada.json").stat().st_mtime_ns == first
    assert f"{ALL + lost} of {MOST}" in ada.read_text("utf-8")
    (renamed,) = folder.rglob("bob*.ipynb")
    renamed.rename(renamed.with_name(renamed.name.replace("bob", "robert")))
    with pytest.raises(AssertionError, match="--again.*bob"):
        zoo.grade(folder, assignments, out, *ONE_BY_ONE, "--again", "bob")
    said = zoo.grade(folder, assignments, out, *ONE_BY_ONE, "--again", "ada")
    assert re.search("before: 1", said)
    assert (out / "records" / "attention" / "ada.json").stat().st_mtime_ns > first
    assert all("bob" in text for text in (said, report_of(out)))
    assert {name: float(row["points"]) for name, row in marks(out, "attention").items()} == {
        **{"ada": ALL + lost, "eve": 0},
        "robert": ALL,
    }


@pytest.mark.deep
def test_the_class_list_reaches_the_report_and_titles_the_feedback(assignments: Path, tmp_path: Path) -> None:
    release, right = released(assignments, "attention"), zoo.solutions(EXERCISES["attention"])
    folder, out, students = tmp_path / "in", tmp_path / "out", tmp_path / "class.csv"
    zoo.hand_in(folder, "ada", zoo.answered(release, right))
    (folder / "bob_attention.pdf").touch()
    (folder / "Cleo M").mkdir()
    shutil.copy(assignments / "release" / "attention" / "attention.ipynb", folder / "Cleo M")
    students.write_text("student\nada\nbob\ncleo\n", "utf-8")
    said = zoo.grade(folder, assignments, out, *ONE_BY_ONE, "--chapter", "attention", "--class", str(students))
    assert "no notebook" in said
    assert "bob_attention.pdf" in report_of(out)
    assert "- cleo: Cleo M/attention.ipynb: marked as Cleo M" in report_of(out)
    assert marks(out, "attention")["bob"]["points"] == "0.0"
    row = marks(out, "attention")["ada"]
    assert {label: float(row[label]) for label in POINTS} == POINTS
    feedback = out / "feedback" / "ada" / "attention" / "attention.html"
    page = html.unescape(re.sub(r"<[^>]+>", "", feedback.read_text("utf-8")))
    assert f"{ALL} of {MOST} points" in page
    for one in EXERCISES["attention"]:
        assert one.title.split("`")[0].split("$")[0] in page.split("Fill in the answer cells")[0], "in the table"


STUCK = """
import os, signal, sys
from pathlib import Path
from workshop.course.grading import pool
from workshop.course.grading.one import Job
from workshop.course.grading.sandbox import Limits
from workshop.course.grading.submissions import Submission

pool.GRACE_SECONDS = 1
folder = Path(sys.argv[1])
worker, job = pool.Worker(), Job(folder, Submission(folder / "missing.ipynb", "ada", "attention"))
for signum in (signal.SIGSTOP, signal.SIGKILL):
    worker.grade(job)
    os.kill(worker.process.pid, signum)
    job.limits = Limits(notebook_seconds=1)
    worker.grade(job)
    print(job.recorded()["error"])
    job.limits = Limits()
worker.stop()
for damaged in ("{broken", "[]", '{"error": ""}'):
    job.record.write_text(damaged, "utf-8")
    print(job.recorded())
"""


@pytest.mark.deep
def test_a_grading_process_that_stops_or_ends_is_replaced_and_a_damaged_record_is_none(tmp_path: Path) -> None:
    done = subprocess.run(
        [zoo.PYTHON, "-c", STUCK, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    stopped, ended, *damaged = done.stdout.splitlines()
    assert re.search(r"\b[23] s", stopped)
    assert "grading.log" in ended
    assert damaged == ["{}"] * 3, "as if it had never been graded"


KILLED = """
import os, signal, sys
from pathlib import Path
from workshop.course.grading import pool
from workshop.course.grading.one import Job
from workshop.course.grading.submissions import Submission

folder = Path(sys.argv[1])
worker = pool.Worker()
worker.grade(Job(folder, Submission(folder / "missing.ipynb", "ada", "attention")))
print(worker.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.deep
def test_a_grading_process_ends_with_the_grader(tmp_path: Path) -> None:
    command = [zoo.PYTHON, "-c", KILLED, tmp_path]
    pid = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    state = "?"
    for _ in range(60):
        state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False).stdout
        if state[:1] in ("", "Z"):  # nobody may have asked how it ended
            break
        time.sleep(0.5)
    assert state[:1] in ("", "Z")


def test_without_a_sandbox_nothing_runs_unasked(needs_grading: None, tmp_path: Path) -> None:
    command = [zoo.PYTHON, "-m", "workshop.course.grade", tmp_path, "--out", tmp_path / "out"]
    given = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("NO SANDBOX")
    assert "--without-sandbox" in done.stderr


def test_marks_never_go_where_the_submissions_lie(assignments: Path, tmp_path: Path) -> None:
    zoo.hand_in(tmp_path / "submitted", "ada", released(assignments, "attention"))
    (file,) = tmp_path.rglob("*.ipynb")
    before = file.read_bytes()
    with pytest.raises(AssertionError, match="marks"):
        zoo.grade(tmp_path, assignments, tmp_path)
    assert file.read_bytes() == before


def test_one_chapter_alone_leaves_the_others_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_assignments.write_sources(tmp_path, ["attention"])
    assert "attention" in capsys.readouterr().out, "whoever waits sees a line for each chapter"
    make_assignments.write_sources(tmp_path, ["masks"])
    assert {path.name for path in (tmp_path / "source").iterdir()} == {"attention", "masks"}
    assert {path.stem for path in (tmp_path / "rubrics").iterdir()} == {"attention", "masks"}


@pytest.mark.deep
def test_the_same_chapters_give_the_same_bytes(assignments: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    make_assignments.write_sources(again)
    make_assignments.make_release(again)
    names = [path.relative_to(again) for path in again.rglob("*") if path.is_file()]
    assert len(names) == 3 * len(EXERCISES) + 3, "and three syllabi"
    for name in names:
        assert (again / name).read_bytes() == (assignments / name).read_bytes(), name


def test_the_release_keeps_our_starters(assignments: Path) -> None:
    for chapter, exercises in EXERCISES.items():
        release = released(assignments, chapter)
        for one in exercises:
            source = "".join(zoo.cell(release, one.label)["source"])
            assert source == one.cells.get("answer", "*Write your answer here.*")
        text = json.dumps(release)
        assert "YOUR CODE HERE" not in text
        assert "HIDDEN TESTS" not in text
        assert not any("explanation" in one["id"] for one in release["cells"])
