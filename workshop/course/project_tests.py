"""Run a project's tests against what one student handed in: its points, and why some are missing.

What the student wrote runs in a sandbox where there is one (grading/sandbox.py). Each test may take so many seconds,
each run of the tests ten times as long: build_the_transformer is one run, and where that was stopped, one for each
test; find_the_bugs is one for each bug and one of everything.
"""

import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from workshop.course.grading.counted import counted
from workshop.course.grading.sandbox import HOME, Limits, bound, environment, missing, unlisted, wall
from workshop.course.make_projects import BUGS, BUILD, PROJECTS, ROOT, copy_tests

RUN = 10  # a run of the tests may take so many times as long as a test
ALONE = 2  # and a run of one test: it starts Python, too
STOPPED = "stopped after"
LETTERS = 300  # of a message in a remark
POINTS_A_BUG = 4.0
POINTS_FOR_THE_REST = 5.0  # everything else still passes
REST = "everything passes"
# A folder for one run; a student's process that still writes into it must not stop the marking.
scratch = partial(tempfile.TemporaryDirectory, ignore_cleanup_errors=True)
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

    points: dict[str, float]
    remark: str = ""
    said: dict[str, str] = field(default_factory=dict)  # what failed → its message


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
    limits = Limits(notebook_seconds=math.ceil(most * seconds), memory_mb=8192)
    walled = [] if missing(python) else wall(limits, python, {}, folder)
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
            preexec_fn=partial(bound, limits),
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
    alone = [_try_build(submission, seconds, [f"{BUILD_TESTS}::{name}"], ALONE) for name in (*worth(), OWN_WORK)]
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
    return {name: value for name, value in found.items() if value}


def grade_build(submission: Path, seconds: float) -> Marked:
    """Points for each passing test of the project to build a Transformer, if the student wrote what passes."""
    if not _own(submission):
        return Marked({}, "no my_transformer.py")
    cases, remark = _try_build(submission, seconds, [BUILD_TESTS])
    if remark.startswith(STOPPED):
        cases, remark = _one_by_one(submission, seconds)
    failed = {case.get("name") for case in cases if not passed(case)}
    good = {case.get("name") for case in cases} - failed
    points = {name: value * (name in good) for name, value in worth().items()}
    if not remark and OWN_WORK not in good:
        why = [said(f, submission) for case in cases if case.get("name") == OWN_WORK for f in case.iter("failure")]
        withheld = counted(sum(points.values()), "point")
        remark = f"{withheld} withheld: {'; '.join(why) or 'the tests did not run to their end'}"
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
