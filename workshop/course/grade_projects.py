"""Mark the two projects by machine: run the tests against what each student handed in.

    python -m workshop.course.grade_projects build_the_transformer SUBMISSIONS --marks marks.csv
    python -m workshop.course.grade_projects find_the_bugs SUBMISSIONS --key assignments/projects/find_the_bugs-key.json

SUBMISSIONS holds a folder for each student. The tests are the project's own, whatever the student did to his, and so
are their points. In the first project transformer_lib cannot be imported. A submission that cannot be marked, or whose
points are withheld, gets a remark that says why; the others are marked all the same, and the marks are written after
each. What students wrote runs on this machine with limited memory. Where bubblewrap is installed, it runs in a sandbox
that sees the tests, Python and its own folder alone; where it is not, the first line that is printed says what that
means. Each test may take --seconds, each run of the tests ten times as long: build_the_transformer is one run,
find_the_bugs one for each bug and one of everything.
"""

import argparse
import contextlib
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from tqdm import tqdm

from workshop.course.grading.marks import cell
from workshop.course.grading.sandbox import UNPROTECTED, Limits, missing, wall
from workshop.course.grading.submissions import NOBODYS, readable
from workshop.course.make_projects import BUGS, BUILD, PROJECTS, ROOT, copy_tests

MEMORY = 8 * 2**30  # bytes of addresses for one run of the tests; torch alone maps two or three GiB
RUN = 10  # a run of the tests may take so many times as long as a test
LETTERS = 300  # of a message in a remark
POINTS_A_BUG = 4
POINTS_FOR_THE_REST = 5  # everything else still passes
BUILD_TESTS = "test_my_transformer.py"
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

    student: str
    points: dict[str, float]
    remark: str = ""


def limited() -> None:
    """Limits of a child process, where the system knows them: memory, and no core file."""
    import resource

    with contextlib.suppress(ValueError, OSError):  # macOS bounds no address space
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for one run; a student's process that still writes into it must not stop the marking."""
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


def run_tests(folder: Path, names: list[str], seconds: float) -> tuple[list[ET.Element], str]:
    """The results of these tests in a folder, and a remark if they could not be run to the end."""
    folder = folder.resolve()
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    python = Path(sys.executable)
    walled = [] if missing(python) else wall(Limits(), python, {}, folder)
    command = [
        *walled,
        str(python),
        "-m",
        "pytest",
        "-q",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        f"--timeout={seconds:g}",
    ]
    mine = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV")) and k != "PYTHONPATH"}
    try:
        subprocess.run(
            [*command, f"--junitxml={report.name}", *names],
            cwd=folder,
            env=mine | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=RUN * seconds,
            check=False,
            preexec_fn=limited if os.name == "posix" else None,
        )
    except subprocess.TimeoutExpired:
        return [], f"stopped after {RUN * seconds:g} s"
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


def _try_build(submission: Path, seconds: float, *options: str) -> tuple[list[ET.Element], str]:
    """What the first project's tests find in a submission, where neither other tests nor the library are at hand."""
    with scratch() as name:
        folder = Path(name)
        for path in (submission / "my_transformer.py", submission / "my_transformer"):
            if path.is_dir():
                shutil.copytree(path, folder / path.name, ignore=NOT_TAKEN)
            elif path.exists():
                shutil.copy(path, folder)
        for own in (BUILD_TESTS, "pytest.ini"):
            shutil.copy(PROJECTS / BUILD / own, folder)
        (folder / "transformer_lib.py").write_text(NO_LIBRARY, "utf-8")
        return run_tests(folder, [*options, BUILD_TESTS], seconds)


@cache
def worth() -> dict[str, float]:
    """What each test is worth, as the empty skeleton's tests say once set up: a submission could claim anything."""
    cases, remark = _try_build(PROJECTS / BUILD, 60, "--setup-only")
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
    if not any((submission / name).exists() for name in ("my_transformer.py", "my_transformer")):
        return Marked(submission.name, {}, "no my_transformer.py")
    cases, remark = _try_build(submission, seconds)
    failed = {case.get("name") for case in cases if not passed(case)}
    good = {case.get("name") for case in cases} - failed
    points = {name: value * (name in good) for name, value in worth().items() if value}
    if not remark and OWN_WORK not in good:
        why = [said(f, submission) for case in cases if case.get("name") == OWN_WORK for f in case.iter("failure")]
        remark = f"{sum(points.values()):g} points withheld: {'; '.join(why) or 'the tests did not run to their end'}"
    return Marked(submission.name, points if OWN_WORK in good else dict.fromkeys(points, 0.0), remark)


def _library(folder: Path, taken_over: Path | None, file: str | None) -> None:
    """The healthy library with one file, or all of it, taken from a submission; the tests beside it."""
    whole = taken_over / "transformer_lib" if taken_over and file is None else ROOT / "transformer_lib"
    library, oracles = folder / "transformer_lib", {"reference.py", "interop"}
    # What the tests judge by is never a submission's.
    shutil.copytree(whole, library, ignore=lambda at, names: NOT_TAKEN(at, names) | oracles.intersection(names))
    if taken_over and file:
        shutil.copy(taken_over / "transformer_lib" / file, library / file)
    shutil.copy(ROOT / "transformer_lib/reference.py", library)
    shutil.copytree(ROOT / "transformer_lib/interop", library / "interop", ignore=NOT_TAKEN)
    copy_tests(folder / "tests")
    shutil.copy(PROJECTS / BUGS / "pytest.ini", folder)


def grade_bugs(submission: Path, seconds: float, planted: list[dict[str, str]]) -> Marked:
    """Points for each bug that is gone, tried by itself in a healthy library, and for everything that still works."""
    if missing := [bug["file"] for bug in planted if not (submission / "transformer_lib" / bug["file"]).is_file()]:
        return Marked(submission.name, {}, f"no transformer_lib/{missing[0]}")
    points: dict[str, float] = {}
    remarks = []
    for bug in planted:
        with scratch() as name:
            _library(Path(name), submission, bug["file"])
            cases, remark = run_tests(Path(name), [f"tests/{bug['caught_by']}"], seconds)
        points[bug["name"]] = POINTS_A_BUG * bool(cases and all(map(passed, cases)))
        remarks += [remark] if remark else []
    with scratch() as name:
        _library(Path(name), submission, None)
        cases, remark = run_tests(Path(name), ["-m", "not slow", "tests"], seconds)
        remarks += [remark] if remark else []
    failed = sum(not passed(case) and case.find("skipped") is None for case in cases)
    points["everything passes"] = POINTS_FOR_THE_REST * bool(cases and failed == 0)
    return Marked(submission.name, points, "; ".join(dict.fromkeys(remarks)))


def marked(grade: Callable[[Path, float], Marked], submission: Path, seconds: float) -> Marked:
    """The marks of a submission. Whatever goes wrong with it is a remark, so that the others get theirs."""
    try:
        return grade(submission, seconds)
    except shutil.Error as error:  # of copying a folder: (from, to, why) of each file
        reason = str(error.args[0][0][2])
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    return Marked(submission.name, {}, f"could not be marked: {' '.join(reason.split())[:LETTERS]}")


def write_marks(marks: list[Marked], path: Path) -> None:
    """A row for each student: total, remark, and every part."""
    parts = list(dict.fromkeys(name for mark in marks for name in mark.points))
    # The name of a folder need not be UTF-8.
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "total", "remark", *map(cell, parts)])
        for mark in marks:
            own = [mark.points.get(part, 0) for part in parts]
            writer.writerow([cell(mark.student), sum(own), cell(mark.remark), *own])


def find(folder: Path) -> tuple[list[Path], str]:
    """The students' folders, and a line on what lies beside them.

    Raises:
        SystemExit: if there is no folder, or none in it.
    """
    if not folder.is_dir():
        raise SystemExit(f"{folder} is no folder: name the one that holds a folder for each student")
    found = sorted(path for path in folder.iterdir() if path.name not in NOBODYS and not path.name.startswith("."))
    students = [path for path in found if path.is_dir()]
    names = [readable(path.name) for path in found if not path.is_dir()]
    left_out = f"Left out, for these are no folders: {', '.join(names)}. Unpack archives." if names else ""
    if not students:
        raise SystemExit(f"{folder} holds no folder: put each student's files into a folder of its own. {left_out}")
    return students, left_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", choices=[BUILD, BUGS])
    parser.add_argument("submissions", type=Path, help="a folder with a folder for each student")
    parser.add_argument(
        "--key",
        type=Path,
        default=ROOT / "assignments" / "projects" / f"{BUGS}-key.json",
        help="of the planted bugs, as `make projects` wrote it (default: the last one)",
    )
    parser.add_argument("--marks", type=Path, default=Path("marks.csv"))
    parser.add_argument("--seconds", type=float, default=60, help="for each test, at most")
    arguments = parser.parse_args()
    students, left_out = find(arguments.submissions)
    grade: Callable[[Path, float], Marked] = grade_build
    if arguments.project == BUGS:
        if not arguments.key.exists():
            raise SystemExit(f"{arguments.key} is not there: name the key that make_projects.py wrote with --key")
        grade = partial(grade_bugs, planted=json.loads(arguments.key.read_text("utf-8")))
    if why := missing(Path(sys.executable)):
        print(UNPROTECTED.format(why=why))
    arguments.marks.parent.mkdir(parents=True, exist_ok=True)
    marks: list[Marked] = []
    for path in tqdm(students, unit="submission"):
        marks.append(marked(grade, path, arguments.seconds))
        write_marks(marks, arguments.marks)
    print(f"{len(marks)} submissions marked: {arguments.marks}")
    if left_out:
        print(left_out)


if __name__ == "__main__":
    main()
