"""Mark the two projects by machine: run the tests against what each student handed in.

    python -m workshop.course.grade_projects build_the_transformer SUBMISSIONS --marks marks.csv
    python -m workshop.course.grade_projects find_the_bugs SUBMISSIONS --key assignments/projects/find_the_bugs-key.json

SUBMISSIONS holds a folder for each student; of the first project also files, such as Canvas's download holds them:
lovelaceada_1234_56_my_transformer.py. The tests are the project's own, whatever the student did to his, and so are
their points. In the first project transformer_lib cannot be imported. A submission that cannot be marked, or whose
points are withheld, gets a remark that says why; the others are marked all the same, and the marks are written after
each, with a page of feedback for the student. A second run marks who is new or handed in something else, and keeps the
other rows, with what you wrote into them; --again marks anew. The total is the machine's, its maximum stands in the row
"of": the column found.md waits for the points that you give.

What students wrote runs on this machine with limited memory and file sizes. Where bubblewrap is installed, it runs in a
sandbox that sees the tests, Python and its own folder alone; where it is not, nothing runs without --without-sandbox.
Each test may take --seconds, each run of the tests ten times as long: build_the_transformer is one run, and where that
was stopped, one for each test; find_the_bugs is one for each bug and one of everything.
"""

import argparse
import contextlib
import csv
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from unicodedata import normalize

from jinja2 import Template
from tqdm import tqdm

from workshop.course.grading import class_list
from workshop.course.grading.marks import cell
from workshop.course.grading.sandbox import HOME, Limits, environment, missing, unlisted, wall, warned
from workshop.course.grading.submissions import MOODLE, NOBODYS, readable, safe, whose
from workshop.course.make_projects import BUGS, BUILD, PROJECTS, ROOT, copy_tests

MEMORY = 8 * 2**30  # bytes of addresses for one run of the tests; torch alone maps two or three GiB
RUN = 10  # a run of the tests may take so many times as long as a test
ALONE = 2  # and a run of one test: it starts Python, too
STOPPED = "stopped after"
LETTERS = 300  # of a message in a remark
POINTS_A_BUG = 4
POINTS_FOR_THE_REST = 5  # everything else still passes
REST = "everything passes"
OF, VERSION = "of", "version"  # the row of what there is to earn, and the column of which files were marked
PAGE = Path(__file__).with_name("project_feedback.html.j2")
BUILD_TESTS = "test_my_transformer.py"
HAND_IN = re.compile(r".+_my_transformer(?:-\d+)?(?: \(\d+\))?\.py")  # -1: a second try
OWN_WORK = "test_nothing_is_left_to_ready_made_attention"  # where it does not pass, no point of the project counts
NO_LIBRARY = """\
raise ImportError("transformer_lib holds the solutions, and my_transformer may not import it: write this part yourself")
"""
# pytest would run these, or be steered by them, if it met them in a student's package; compiled code cannot be read.
NOT_TAKEN = shutil.ignore_patterns(
    *("__pycache__", "pretrained", "*.py[cod]", "*.so", "conftest.py", "test_*.py", "*_test.py"),
    *("pytest.*", ".pytest.*", "tox.ini", "setup.cfg", "pyproject.toml"),
)


@dataclass
class Marked:
    """The points of one submission, test by test or bug by bug, and what happened if it could not be run."""

    points: dict[str, float]
    remark: str = ""
    said: dict[str, str] = field(default_factory=dict)  # what failed → its message


def limited() -> None:
    """Limits of a child process, where the system knows them: memory, the size of a file, and no core file."""
    size = Limits().file_mb << 20
    for kind, bound in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, size), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):  # macOS bounds no address space
            resource.setrlimit(kind, (bound, bound))


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for one run; a student's process that still writes into it must not stop the marking."""
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


def run_tests(folder: Path, names: list[str], seconds: float, most: int = RUN) -> tuple[list[ET.Element], str]:
    """The results of these tests in a folder, and a remark if they could not be run to the end.

    Args:
        seconds: for each test.
        most: so many times as long may all of them take.
    """
    folder = folder.resolve()
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    python = Path(sys.executable)
    walled = [] if missing(python) else wall(Limits(), python, {}, folder)
    command, inherited = unlisted(walled, python)
    options = f"-m pytest -q --tb=no -p no:cacheprovider --timeout={seconds:g} --junitxml={report.name}".split()
    try:
        subprocess.run(
            [*command, *options, *names],
            cwd=folder,
            env=environment(HOME if walled else str(folder), python),
            pass_fds=inherited,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=most * seconds,
            check=False,
            preexec_fn=limited,
        )
    except subprocess.TimeoutExpired:
        return [], f"{STOPPED} {most * seconds:g} s"
    finally:
        for one in inherited:
            os.close(one)
    try:
        cases = list(ET.parse(report).iter("testcase"))
    except (FileNotFoundError, ET.ParseError):
        return [], "the tests ended without a whole report: the process was killed or left"
    errors = [error for case in cases if (error := case.find("error")) is not None]
    if errors and len(errors) == len(cases):
        return cases, f"could not be imported: {said(errors[0], folder)}"
    return cases, ""


def said(trouble: ET.Element, folder: Path) -> str:
    """The message of a failure or an error in one line, without the way to it and without our folder's name."""
    lines = (trouble.text or "").splitlines()
    shown = [line[1:].strip() for line in lines if line.startswith("E ")]  # pytest's sign of what was raised
    raised = [line for line in shown if re.match(r"[\w.]*(Error|Exception|Exit)\b", line)]
    text = next(iter([*raised, *shown[-1:], *lines[-1:]]), "") or trouble.get("message", "")
    return " ".join(text.replace(f"{folder}{os.sep}", "").split())[:LETTERS]


def passed(case: ET.Element) -> bool:
    return all(case.find(name) is None for name in ("failure", "error", "skipped"))


def _own(submission: Path) -> dict[str, Path]:
    """Name → what a submission of the first project holds under it: a folder, or the module itself as a file."""
    if submission.is_file():
        return {"my_transformer.py": submission}
    paths = [submission / "my_transformer.py", submission / "my_transformer"]
    return {path.name: path for path in paths if path.exists()}


def _try_build(submission: Path, seconds: float, names: list[str], most: int = RUN) -> tuple[list[ET.Element], str]:
    """What the first project's tests find in a submission, where neither other tests nor the library are at hand."""
    with scratch() as name:
        folder = Path(name)
        for own, path in _own(submission).items():
            if path.is_dir():
                shutil.copytree(path, folder / own, ignore=NOT_TAKEN)
            else:
                shutil.copy(path, folder / own)
        for own in (BUILD_TESTS, "pytest.ini"):
            shutil.copy(PROJECTS / BUILD / own, folder)
        (folder / "transformer_lib.py").write_text(NO_LIBRARY, "utf-8")
        return run_tests(folder, names, seconds, most)


def _one_by_one(submission: Path, seconds: float) -> tuple[list[ET.Element], str]:
    """Each test of the first project in a run of its own: what one of them never ends takes no point of another's."""
    _, remark = _try_build(submission, seconds, ["--collect-only", BUILD_TESTS], ALONE)
    if remark:  # nothing can be imported
        return [], remark
    alone = [_try_build(submission, seconds, [f"{BUILD_TESTS}::{name}"], ALONE) for name in worth()]
    return [case for cases, _ in alone for case in cases], ""


@cache
def worth() -> dict[str, float]:
    """What each test is worth, as the empty skeleton's tests say once set up: a submission could claim anything."""
    cases, remark = _try_build(PROJECTS / BUILD, 60, ["--setup-only", BUILD_TESTS])
    found = {
        str(case.get("name")): float(own.get("value", 0))
        for case in cases
        for own in case.iter("property")
        if own.get("name") == "points"
    }
    if OWN_WORK not in found:
        raise SystemExit(f"the tests of {PROJECTS / BUILD} cannot be run here: {remark or 'they give no points'}")
    return found


def grade_build(submission: Path, seconds: float) -> Marked:
    """Points for each passing test of the project to build a Transformer, if the student wrote what passes."""
    if not _own(submission):
        return Marked({}, "no my_transformer.py")
    cases, remark = _try_build(submission, seconds, [BUILD_TESTS])
    if remark.startswith(STOPPED):
        cases, remark = _one_by_one(submission, seconds)
    failed = {case.get("name") for case in cases if not passed(case)}
    good = {case.get("name") for case in cases} - failed
    points = {name: value * (name in good) for name, value in worth().items() if value}
    if not remark and OWN_WORK not in good:
        why = [said(f, submission) for case in cases if case.get("name") == OWN_WORK for f in case.iter("failure")]
        remark = f"{sum(points.values()):g} points withheld: {'; '.join(why) or 'the tests did not run to their end'}"
    troubles = [(str(case.get("name")), one) for case in cases for one in case if one.tag in ("failure", "error")]
    messages = {name: said(trouble, submission) for name, trouble in troubles}
    return Marked(points if OWN_WORK in good else dict.fromkeys(points, 0.0), remark, messages)


def _try_library(
    whole: Path, other: Path, files: Iterable[str], tests: list[str], seconds: float
) -> tuple[list[ET.Element], str]:
    """What these tests find in one library that has some files of another: a submission's and the healthy one."""
    with scratch() as name:
        folder, library, oracles = Path(name), Path(name, "transformer_lib"), {"reference", "interop"}
        shutil.copytree(  # What the tests judge by is never a submission's.
            *(whole / "transformer_lib", library),
            ignore=lambda at, names: NOT_TAKEN(at, names) | oracles.intersection(names),
        )
        for file in files:
            shutil.copy(other / file, folder / file)
        for oracle in oracles:
            shutil.copytree(ROOT / "transformer_lib" / oracle, library / oracle, ignore=NOT_TAKEN)
        copy_tests(folder / "tests")
        shutil.copy(PROJECTS / BUGS / "pytest.ini", folder)
        return run_tests(folder, tests, seconds)


def grade_bugs(submission: Path, seconds: float, planted: list[dict[str, str]]) -> Marked:
    """Points for each bug that is gone, tried by itself in a healthy library, and for everything that still works.

    A bug that is left has cost its points already: for the rest its file is the healthy one. Where none is gone, the
    rest earns nothing either.
    """
    if missing := [bug["file"] for bug in planted if not (submission / bug["file"]).is_file()]:
        return Marked({}, f"no {missing[0]}")
    points: dict[str, float] = {}
    remarks = []
    for bug in planted:
        cases, remark = _try_library(ROOT, submission, [bug["file"]], [f"tests/{bug['caught_by']}"], seconds)
        points[bug["name"]] = POINTS_A_BUG * bool(cases and all(map(passed, cases)))
        remarks.append(remark)
    left = [bug["file"] for bug in planted if not points[bug["name"]]]
    cases, remark = _try_library(submission, ROOT, left, ["-m", "not slow", "tests"], seconds)
    failed = sum(not passed(case) and case.find("skipped") is None for case in cases)
    points[REST] = POINTS_FOR_THE_REST * bool(any(points.values()) and cases and failed == 0)
    return Marked(points, "; ".join(filter(None, dict.fromkeys([*remarks, remark]))))


def marked(grade: Callable[[Path, float], Marked], submission: Path, seconds: float) -> Marked:
    """The marks of a submission. Whatever goes wrong with it is a remark, so that the others get theirs."""
    try:
        return grade(submission, seconds)
    except shutil.Error as error:  # of copying a folder: (from, to, why) of each file
        reason = str(error.args[0][0][2])
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    return Marked({}, f"could not be marked: {' '.join(reason.split())[:LETTERS]}")


def task(part: str) -> str:
    """The task that a test belongs to; a part of another kind is its own."""
    return re.sub(r"^test_(\d+)_.*", r"task \1", part)


def sums(points: dict[str, float]) -> dict[str, float]:
    """Task → its points."""
    together = dict.fromkeys(map(task, points), 0.0)
    for part, value in points.items():
        together[task(part)] += value
    return together


def row(student: str, mark: Marked, parts: Iterable[str], version: str = "") -> dict[str, object]:
    """The row of a student: total, remark, the sum of each task and every part; which version of the files it is of."""
    own = {part: float(mark.points.get(part, 0)) for part in parts}
    points = {cell(name): value for name, value in (sums(own) | own).items()}
    return {"student": student, "total": sum(own.values()), "remark": cell(mark.remark), **points, VERSION: version}


def version(submission: Path) -> str:
    """Another word whenever a file of a submission is another."""
    files = sorted(path for path in [submission, *submission.rglob("*")] if path.is_file() and not path.is_symlink())
    digest = hashlib.sha256()
    for file in files:
        digest.update(bytes(file.relative_to(submission)) + b"\0")
        with contextlib.suppress(OSError), file.open("rb") as opened:  # what cannot be read becomes a remark later
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()[:12]


def write_feedback(folder: Path, name: str, student: str, mark: Marked, most: dict[str, float]) -> None:
    """The page for a student: points of each task, and what each failed test saw. A bug that is left is not named."""
    own = {part: mark.points.get(part, 0.0) for part in most}
    shown = {part: part if task(part) != part or part == REST or own[part] else "a bug that is left" for part in most}
    known = {"name": name, "student": student, "mark": mark, "own": own, "most": most, "shown": shown, "task": task}
    page = Template(PAGE.read_text("utf-8"), autoescape=True).render(sums=sums(own), of=sums(most), **known)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{safe(student)}.html").write_text(page, "utf-8")


def listed(student: str) -> str:
    """A student as in the table; the name of a folder need not be UTF-8."""
    return cell(normalize("NFC", student)).encode("utf-8", "backslashreplace").decode("utf-8")


def read_marks(path: Path, columns: list[str]) -> tuple[list[str], dict[str, dict[str, object]]]:
    """The columns of the table, the instructor's own among them, and student → row of an earlier run.

    Raises:
        SystemExit: the file is no table with these columns, or writing it anew would lose something of it.
    """
    if not path.exists():
        return columns, {}
    rows: dict[str, dict[str, object]] = {}
    table = class_list.table(class_list.decoded(path.read_bytes()))
    found = [*(table.fieldnames or [])]
    new = [column for column in columns if column not in found]
    if lacking := [column for column in new if column != VERSION and not column.startswith("task ")]:
        raise SystemExit(
            f"{path} is no table of this project and its key: it lacks the column {lacking[0]}. "
            "Name another table (--marks), or move this one."
        )
    if twice := [column for column in found if found.count(column) > 1]:
        raise SystemExit(f"{path}, line 1: column {twice[0]!r} stands there twice: name each column once")
    for own in table:
        where = f"{path}, line {table.line_num}"
        if None in own or None in own.values():
            remedy = "put a cell that holds a comma in quotes, and leave no cell out"
            raise SystemExit(f"{where}: more or fewer cells than the {len(found)} columns: {remedy}")
        if own["student"] in rows:
            raise SystemExit(f"{where}: student {own['student']!r} stands there twice: keep one row")
        rows[own["student"]] = dict(own)
    return [*found, *new], rows


def write_marks(rows: dict[str, dict[str, object]], path: Path, columns: list[str]) -> None:
    """The table anew; an earlier one stays whole until then, for it may hold marks by hand."""
    new, sign = path.with_name(f"{path.name}.new"), ","
    if path.exists():  # Excel in some languages reads semicolons alone, and writes them
        sign = class_list.table(class_list.decoded(path.read_bytes())).reader.dialect.delimiter
    with new.open("w", newline="", encoding="utf-8-sig", errors="backslashreplace") as file:
        writer = csv.DictWriter(file, columns, delimiter=sign, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows.values())
    new.replace(path)


def find(folder: Path, project: str) -> tuple[dict[str, Path], str]:
    """Student, as in the table → the folder, or of the first project the file; and a line on what lies beside them.

    Raises:
        SystemExit: if there is no folder, or none in it.
    """
    if not folder.is_dir():
        raise SystemExit(f"{folder} is no folder: name the one that holds a folder for each student")
    found = [path for path in folder.iterdir() if path.name not in NOBODYS and not path.name.startswith(".")]
    students: dict[str, Path] = {}
    beside = []
    for path in sorted(found, key=lambda path: (path.lstat().st_mtime, path.name)):
        is_module = project == BUILD and path.is_file() and not path.is_symlink() and HAND_IN.fullmatch(path.name)
        named = whose(path.stem if is_module else path.name, {"my_transformer"})
        student = listed(named["student"] if is_module or MOODLE.match(path.name) else path.name)
        if not is_module and not path.is_dir():
            beside.append(path)
            continue
        if student in students:  # the newer counts
            beside.append(students[student])
        students[student] = path
    names = ", ".join(sorted(readable(path.name) for path in beside))
    left_out = (
        f"Left out, for these are no folders, or another of the same student counts: {names}. Unpack archives."
        if names
        else ""
    )
    if not students:
        raise SystemExit(f"{folder} holds no folder: put each student's files into a folder of its own. {left_out}")
    return dict(sorted(students.items())), left_out


def grader(project: str, key: Path) -> tuple[Callable[[Path, float], Marked], dict[str, float], list[str]]:
    """What marks a submission of a project, what each part is worth at most, and the columns for marks by hand."""
    if project == BUILD:
        return grade_build, {name: value for name, value in worth().items() if value}, []
    if not key.exists():
        raise SystemExit(f"{key} is not there: name the key that make_projects.py wrote with --key")
    planted = json.loads(key.read_text("utf-8"))
    most = dict.fromkeys((bug["name"] for bug in planted), float(POINTS_A_BUG)) | {REST: float(POINTS_FOR_THE_REST)}
    return partial(grade_bugs, planted=planted), most, ["found.md"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", choices=[BUILD, BUGS])
    parser.add_argument("submissions", type=Path, help="a folder with a folder for each student")
    parser.add_argument(
        "--key",
        type=Path,
        default=ROOT / "assignments" / "projects" / f"{BUGS}-key.json",
        help="of the planted bugs, as make_projects wrote it (default: the last one)",
    )
    parser.add_argument("--marks", type=Path, default=Path("marks.csv"))
    parser.add_argument("--seconds", type=float, default=60, help="for each test, at most")
    parser.add_argument("--again", nargs="*", metavar="STUDENT", help="mark these anew, or without a name all")
    parser.add_argument("--without-sandbox", action="store_true", help="go on where there is none")
    arguments = parser.parse_args()
    students, left_out = find(arguments.submissions, arguments.project)
    again = [*students] if arguments.again == [] else arguments.again or []
    if unknown := sorted({*again} - {*students}):
        parser.error(f"--again: {', '.join(unknown)} handed in nothing in {arguments.submissions}")
    print(warned(Path(sys.executable), arguments.without_sandbox), end="")
    grade, most, by_hand = grader(arguments.project, arguments.key)
    in_order = sorted(sums(most) | most, key=lambda part: [*sums(most)].index(task(part)))
    columns = ["student", "total", "remark", *by_hand, *map(cell, in_order), VERSION]
    columns, rows = read_marks(arguments.marks, columns)
    rows = {OF: {**rows.get(OF, {}), **row(OF, Marked(most), most)}, **rows}
    arguments.marks.parent.mkdir(parents=True, exist_ok=True)
    now = {name: version(path) for name, path in students.items()}
    known = {name: own.get(VERSION) or now.get(name) for name, own in rows.items()}  # a table of an older version
    todo = [name for name in students if name in again or known.get(name) != now[name]]
    pages = arguments.marks.with_name(f"{arguments.marks.stem}-feedback")
    try:
        for name in tqdm(todo, unit="submission"):
            mark = marked(grade, students[name], arguments.seconds)
            rows[name] = {**rows.get(name, {}), **row(name, mark, most, now[name])}
            write_marks(rows, arguments.marks, columns)
            write_feedback(pages, arguments.project, name, mark, most)
    except KeyboardInterrupt:
        rest = "the same command goes on with the rest"
        if arguments.again is not None:
            rest = "without --again it goes on with who is new or changed; --again NAME marks NAME anew"
        sys.exit(f"\nStopped. What was marked is kept; {rest}.")
    print(f"{len(todo)} submissions marked, of {sum(most.values()):g} points: {arguments.marks}; pages: {pages}")
    if before := len(students) - len(todo):
        print(f"{before} were marked before and are as they were; --again marks them anew.")
    if left_out:
        print(left_out)


if __name__ == "__main__":
    main()
