"""How long a class takes: grade synthetic submissions of one chapter and say so in seconds of clock and processor.

    python benchmarks/class_grading.py [--submissions 90] [--chapter attention] [--at-once 2]
    python benchmarks/class_grading.py --submissions 20 --write pretended-class     write the class, grade nothing

The class is pretended (workshop/course/pretended_class.py). Needs `make assignments`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workshop.course.pretended_class import write_class

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-grading" / "bin" / "python"


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
