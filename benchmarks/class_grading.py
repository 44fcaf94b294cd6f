"""How long a class takes: grade synthetic submissions of one chapter and say so in seconds of clock and processor.

    python benchmarks/class_grading.py [--submissions 90] [--chapter attention] [--at-once 2]
    python benchmarks/class_grading.py --submissions 20 --write pretended-class     write the class, grade nothing

Of ten students, one hands in the starters unchanged; the others give to each exercise the solution, a typical wrong
answer or the starter, drawn from a fixed seed; one of three writes something by hand. Needs `make assignments`.
"""

import argparse
import copy
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from workshop.course.make_assignments import chapters

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-grading" / "bin" / "python"
Notebook = dict[str, Any]


def load(path: Path) -> Notebook:
    """The notebook in a file."""
    return json.loads(path.read_text("utf-8"))


def cell(notebook: Notebook, name: str) -> dict[str, Any]:
    """The cell with this nbgrader id."""
    return next(one for one in notebook["cells"] if one["metadata"].get("nbgrader", {}).get("grade_id") == name)


def answered(release: Notebook, answers: dict[str, str]) -> Notebook:
    """The student's notebook with these answers filled in."""
    notebook = copy.deepcopy(release)
    for label, source in answers.items():
        cell(notebook, label)["source"] = source
    return notebook


def hand_in(folder: Path, name: str, notebook: Notebook | str | bytes) -> None:
    """Put a submission of this name into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = notebook if isinstance(notebook, str | bytes) else json.dumps(notebook)
    (folder / f"{name}.ipynb").write_bytes(text if isinstance(text, bytes) else text.encode())


def write_class(folder: Path, assignments: Path, chapter: str, count: int) -> None:
    """The submissions of a class."""
    release = load(assignments / "release" / chapter / f"{chapter}.ipynb")
    _, _, exercises = chapters([chapter])[chapter]
    machine = [one for one in exercises if one.is_graded_by_machine]
    written = [one for one in exercises if not one.is_graded_by_machine]
    draw = random.Random(0)
    for number in range(count):
        answers = {}
        for one in machine if number % 10 else []:
            choices = [one.cells["solution"], *(wrong.source for wrong in one.wrong_answers), one.cells["answer"]]
            answers[one.label] = draw.choice([one.cells["solution"], *choices])
        for one in written if number % 3 == 1 else []:
            answers[one.label] = "Two models, equal but for one thing, five seeds each. (Nobody's answer, for trying.)"
        hand_in(folder, f"student{number:03d}_{chapter}", answered(release, answers))


def main() -> None:
    """Make the class, grade it, print what it took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--submissions", type=int, default=90)
    parser.add_argument("--chapter", default="attention")
    parser.add_argument("--assignments", type=Path, default=ROOT / "assignments")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--write", type=Path, help="write the submissions into this folder, and grade nothing")
    given = parser.parse_args()
    if given.submissions < 1:
        parser.error(f"--submissions {given.submissions}: a class has one at least")
    if not (given.assignments / "release" / given.chapter).is_dir():
        names = ", ".join(sorted(path.name for path in given.assignments.glob("release/*"))) or "none yet"
        parser.error(f"no release of {given.chapter!r} in {given.assignments} ({names}); run `make assignments` first")
    if given.write:
        write_class(given.write, given.assignments, given.chapter, given.submissions)
        print(f"{given.submissions} submissions of {given.chapter} in {given.write}: nobody's, for trying")
        return
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name, "in"), Path(name, "out")
        write_class(folder, given.assignments, given.chapter, given.submissions)
        command = [PYTHON, "-m", "workshop.course.grade", folder, "--assignments", given.assignments, "--out", out]
        command += ["--without-sandbox"]  # the submissions are its own
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        start = time.monotonic()
        done = subprocess.run([*command, "--at-once", str(given.at_once)], env=environment, check=False)
        seconds = time.monotonic() - start
        records = [json.loads(path.read_text("utf-8")) for path in (out / "records" / given.chapter).glob("*.json")]
        if not records:
            sys.exit(done.returncode or "Nothing was graded.")
        each = [record.get("cpu_seconds", 0.0) for record in records]
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
    load_now = os.getloadavg()[0]
    clock = f"{seconds:.0f} s by the clock, {seconds / len(records):.1f} s a submission"
    print(f"{len(records)} submissions of {given.chapter}, {given.at_once} at a time: {clock};")
    spread = f"{min(each):.1f} to {max(each):.1f} s each, median {statistics.median(each):.1f} s"
    print(f"{sum(each):.0f} s of processor time in graders and kernels, {spread};")
    print(f"{size:.0f} MB of marks. {os.cpu_count()} processors; at the end {load_now:.1f} programs waited for them.")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
