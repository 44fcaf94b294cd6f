"""Mark the two projects by machine: run the tests against what each student handed in.

    python scripts/grade_projects.py build_the_transformer SUBMISSIONS --marks marks.csv
    python scripts/grade_projects.py find_the_bugs SUBMISSIONS --key assignments/projects/find_the_bugs-key.json

SUBMISSIONS holds a folder for each student. The tests are the project's own, whatever the student did to his. What
students wrote runs on this machine with your rights: use a container or a throw-away account for a class you do not
know. Each test may take --seconds, each submission ten times as long in all, and the memory is limited.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from make_projects import BUGS, BUILD, MODULES, NOT_COPIED, PROJECTS, ROOT
from tqdm import tqdm

MEMORY = 8 * 2**30  # bytes of addresses for one run of the tests; torch alone maps two or three GiB
POINTS_A_BUG = 4
POINTS_FOR_THE_REST = 5  # everything else still passes


@dataclass
class Marked:
    """The points of one submission, test by test or bug by bug, and what happened if it could not be run."""

    student: str
    points: dict[str, float]
    remark: str = ""


def limited() -> None:
    """Limits of a child process, where the system knows them: memory, and no core file."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_tests(folder: Path, names: list[str], seconds: float) -> tuple[list[ET.Element], str]:
    """The results of the tests in a folder, and a remark if they could not be run to the end."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", f"--timeout={seconds:g}"]
    mine = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV")) and k != "PYTHONPATH"}
    try:
        subprocess.run(
            [*command, f"--junitxml={report.name}", *names],
            cwd=folder,
            env=mine | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=10 * seconds,
            check=False,
            preexec_fn=limited if os.name == "posix" else None,
        )
    except subprocess.TimeoutExpired:
        return [], f"stopped after {10 * seconds:g} s"
    if not report.exists():
        return [], "the tests ended without a report: the process was killed or left"
    cases = list(ET.parse(report).iter("testcase"))
    broken = [case for case in cases if case.find("error") is not None]
    return cases, "could not be imported: see its first error" if broken and len(broken) == len(cases) else ""


def passed(case: ET.Element) -> bool:
    return all(case.find(name) is None for name in ("failure", "error", "skipped"))


def grade_build(submission: Path, seconds: float) -> Marked:
    """Points for each passing test of the project to build a Transformer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = [submission / "my_transformer.py", submission / "my_transformer"]
        if not any(path.exists() for path in found):
            return Marked(submission.name, {}, "no my_transformer.py")
        for path in found:
            if path.is_dir():
                shutil.copytree(path, folder / path.name, ignore=NOT_COPIED)
            elif path.exists():
                shutil.copy(path, folder)
        for own in ("test_my_transformer.py", "pytest.ini"):
            shutil.copy(PROJECTS / BUILD / own, folder)
        cases, remark = run_tests(folder, [], seconds)
    points: dict[str, float] = {}
    for case in cases:
        worth = next((float(p.get("value", 0)) for p in case.iter("property") if p.get("name") == "points"), 0.0)
        points[str(case.get("name"))] = worth * passed(case)
    return Marked(submission.name, points, remark)


def _library(folder: Path, taken_over: Path | None, file: str | None) -> None:
    """The healthy library with one file, or all of it, taken from a submission; the tests beside it."""
    whole = taken_over / "transformer_lib" if taken_over and file is None else ROOT / "transformer_lib"
    shutil.copytree(whole, folder / "transformer_lib", ignore=NOT_COPIED)
    if taken_over and file:
        shutil.copy(taken_over / "transformer_lib" / file, folder / "transformer_lib" / file)
    (folder / "tests").mkdir()
    for name in ("conftest.py", "reference.py", *(f"test_{module}.py" for module in MODULES)):
        shutil.copy(ROOT / "tests" / name, folder / "tests" / name)
    shutil.copy(PROJECTS / BUGS / "pytest.ini", folder)


def grade_bugs(submission: Path, seconds: float, planted: list[dict[str, str]]) -> Marked:
    """Points for each bug that is gone, tried by itself in a healthy library, and for everything that still works."""
    if missing := [bug["file"] for bug in planted if not (submission / "transformer_lib" / bug["file"]).is_file()]:
        return Marked(submission.name, {}, f"no transformer_lib/{missing[0]}")
    points: dict[str, float] = {}
    remarks = []
    for bug in planted:
        with tempfile.TemporaryDirectory() as name:
            _library(Path(name), submission, bug["file"])
            cases, remark = run_tests(Path(name), [f"tests/{bug['caught_by']}"], seconds)
        points[bug["name"]] = POINTS_A_BUG * bool(cases and all(map(passed, cases)))
        remarks += [remark] if remark else []
    with tempfile.TemporaryDirectory() as name:
        _library(Path(name), submission, None)
        cases, remark = run_tests(Path(name), ["-m", "not slow", "tests"], seconds)
        remarks += [remark] if remark else []
    failed = sum(not passed(case) and case.find("skipped") is None for case in cases)
    points["everything passes"] = POINTS_FOR_THE_REST * bool(cases and failed == 0)
    return Marked(submission.name, points, "; ".join(dict.fromkeys(remarks)))


def write_marks(marks: list[Marked], path: Path) -> None:
    """A row for each student: total, remark, and every part."""
    parts = list(dict.fromkeys(name for mark in marks for name in mark.points))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "total", "remark", *parts])
        for mark in marks:
            own = [mark.points.get(part, 0) for part in parts]
            writer.writerow([mark.student, sum(own), mark.remark, *own])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("project", choices=[BUILD, BUGS])
    parser.add_argument("submissions", type=Path, help="a folder with a folder for each student")
    parser.add_argument("--key", type=Path, default=ROOT / "assignments" / "projects" / f"{BUGS}-key.json")
    parser.add_argument("--marks", type=Path, default=Path("marks.csv"))
    parser.add_argument("--seconds", type=float, default=60, help="for each test, at most")
    arguments = parser.parse_args()
    students = sorted(path for path in arguments.submissions.iterdir() if path.is_dir())
    if not students:
        raise SystemExit(f"{arguments.submissions} holds no folder: put each student's files into a folder of its own")
    grade: Callable[[Path, float], Marked] = grade_build
    if arguments.project == BUGS:
        if not arguments.key.exists():
            raise SystemExit(f"{arguments.key} is not there: name the key that make_projects.py wrote with --key")
        grade = partial(grade_bugs, planted=json.loads(arguments.key.read_text("utf-8")))
    marks = [grade(path, arguments.seconds) for path in tqdm(students, unit="submission")]
    write_marks(marks, arguments.marks)
    print(f"{len(marks)} submissions marked: {arguments.marks}")


if __name__ == "__main__":
    main()
