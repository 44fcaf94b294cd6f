"""Grade what students handed in: marks for the course system, a page of feedback for each, a report on the class.

    make grade SUBMISSIONS=folder [CHAPTER=attention] [OUT=grades]

It writes into OUT: marks/CHAPTER.csv, marks/CHAPTER-moodle.csv, marks/CHAPTER-canvas.csv, feedback/STUDENT/CHAPTER/
and the same in feedback-CHAPTER.zip, report-CHAPTER.md, and nbgrader's gradebook.db, in which written answers are
marked by hand. A second run grades only what changed, and keeps the marks given by hand.

STUDENTS' CODE RUNS ON THIS MACHINE, with the rights of the user who starts this, and without a sandbox. It gets
limited memory, time and file sizes, and no network where the system allows that; it can read what you can read, and
delete what you can delete. Grade as a user who owns nothing else, in a container, or in bubblewrap:

    bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --bind GRADES GRADES --unshare-net --die-with-parent \\
          .venv-grading/bin/python scripts/grade.py SUBMISSIONS --out GRADES
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import fields
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KERNEL_PYTHON = ROOT / ".venv" / "bin" / "python"
GRACE_SECONDS = 240  # beyond a notebook's own time, for nbgrader and for kernels to start

try:
    from grading import course, marks, summary
    from grading.one import Job, Limits, grade, write_feedback
    from grading.submissions import Submission, find
except ImportError as error:  # nbgrader lives in an environment of its own
    raise SystemExit(f"{error}. Run this as `make grade`, or with .venv-grading/bin/python.") from None


class Course:
    """The folder of marks, prepared with the assignments."""

    def __init__(self, assignments: Path, out: Path):
        self.root = out.resolve()
        self.chapters = {path.name: self._labels(path) for path in sorted((assignments / "source").glob("*/"))}
        self.assignments = assignments
        if not self.chapters:
            raise SystemExit(f"No assignments in {assignments}: run `make assignments` first.")

    @staticmethod
    def _labels(folder: Path) -> list[str]:
        """The names of a chapter's answers."""
        notebook = json.loads((folder / f"{folder.name}.ipynb").read_text("utf-8"))
        roles = [cell["metadata"].get("nbgrader", {}) for cell in notebook["cells"]]
        return [role["grade_id"] for role in roles if role.get("solution")]

    def prepare(self, chapter: str) -> None:
        """Bring the assignment into the course, where it is new or another than before."""
        theirs = self.assignments / "source" / chapter / f"{chapter}.ipynb"
        ours = self.root / "source" / chapter / f"{chapter}.ipynb"
        released = self.root / "release" / chapter / f"{chapter}.ipynb"
        if released.exists() and ours.exists() and ours.read_bytes() == theirs.read_bytes():
            return
        before = ours.read_bytes() if ours.exists() else None
        ours.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(theirs, ours)
        try:
            course.release(self.root, chapter, with_database=True)
        except SystemExit:
            ours.write_bytes(before) if before else ours.unlink()
            raise
        course.write_config_file(self.root)


def is_done(job: Job) -> bool:
    """Whether this submission was graded before, as it is now."""
    if not (job.record.exists() and job.autograded.exists()):
        return False
    record = json.loads(job.record.read_text("utf-8"))
    return not record["error"] and record["fingerprint"] == job.fingerprint()


def _given_up(job: Job, message: str) -> None:
    """The record of a submission on which the grader itself failed."""
    record = {"student": job.student, "chapter": job.chapter, "file": str(job.file), "fingerprint": ""}
    job.record.parent.mkdir(parents=True, exist_ok=True)
    record |= {"events": [], "error": message, "outcomes": {}, "seconds": 0}
    job.record.write_text(json.dumps(record, indent=1), "utf-8")


def _stop(process: Any) -> None:
    """End a grading process and the kernels that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def _in_a_group(job: Job) -> None:
    """The body of a grading process; silent, for nbgrader says much and it is all in the record."""
    os.setpgrp()
    log = (job.root / "grading.log").open("a", buffering=1)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    try:
        grade(job)
    except BaseException as error:
        _given_up(job, f"{type(error).__name__}: {error}")
        raise


def grade_all(jobs: list[Job], at_once: int) -> None:
    """Grade several at a time, each in a process of its own, with a line on each."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["grading.one"])
    running: dict[Any, tuple[Any, Job, float]] = {}
    waiting, done, start = list(reversed(jobs)), 0, time.monotonic()
    while waiting or running:
        while waiting and len(running) < at_once:
            job = waiting.pop()
            process = context.Process(target=_in_a_group, args=(job,))
            process.start()
            running[process.sentinel] = (process, job, time.monotonic())
        for sentinel in wait(list(running), timeout=1):
            process, job, began = running.pop(sentinel)
            process.join()
            if not job.record.exists():
                _given_up(job, "the grading process ended without a word: see grading.log")
            done += 1
            _show(job, done, len(jobs), began, start)
        for sentinel, (process, job, began) in list(running.items()):
            if time.monotonic() - began > job.limits.notebook_seconds + GRACE_SECONDS:
                _stop(process)
                _given_up(job, f"no end after {time.monotonic() - began:.0f} s")
                running.pop(sentinel)
                done += 1
                _show(job, done, len(jobs), began, start)


def _show(job: Job, done: int, total: int, began: float, start: float) -> None:
    """One line on a graded submission, with an estimate of what is left."""
    now = time.monotonic()
    left = (now - start) / done * (total - done)
    record = json.loads(job.record.read_text("utf-8"))
    notes = "; ".join(record["events"]) or ("THE GRADER FAILED" if record["error"] else "")
    line = f"[{done}/{total}] {job.chapter}, {job.student}: {now - began:.0f} s, about {left / 60:.0f} min left"
    print(f"{line}. {notes}" if notes else line, flush=True)


def export(the_course: Course, chapter: str, submissions: list[Submission], lines: list[str]) -> list[Any]:
    """Write the marks, the report and the archive of feedback for one chapter."""
    root, found = the_course.root, []
    with course.gradebook(root) as book:
        for one in submissions:
            job = Job(root, chapter, one.student, one.file)
            record = json.loads(job.record.read_text("utf-8"))
            try:
                found.append(marks.marks_of(book, one, record))
            except Exception as error:  # nbgrader has no entry where it failed
                lines = [*lines, f"{one.student}: NO MARK, {record['error'] or error}"]
    folder = root / "marks"
    folder.mkdir(exist_ok=True)
    if found:
        marks.write_generic(folder / f"{chapter}.csv", found)
        marks.write_moodle(folder / f"{chapter}-moodle.csv", found)
        marks.write_canvas(folder / f"{chapter}-canvas.csv", found, chapter)
        (root / f"report-{chapter}.md").write_text(summary.report(chapter, found, lines), "utf-8")
    with zipfile.ZipFile(root / f"feedback-{chapter}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for one in found:
            page = Job(root, chapter, one.submission.student, one.submission.file).feedback
            if page.exists():
                archive.write(page, f"{one.submission.stem}.html")
    return found


def refresh_feedback(jobs: list[Job]) -> None:
    """Write the pages anew of those that were not graded again: they may have got marks or comments by hand."""
    for job in jobs:
        write_feedback(job, json.loads(job.record.read_text("utf-8"))["events"])


def network() -> str:
    """What the kernels will have, in words."""
    command = [KERNEL_PYTHON, ROOT / "scripts" / "grading" / "kernel.py", "--probe"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return "no network" if said == "no network" else "the NETWORK (this system does not let a user switch it off)"


def run(folder: Path, assignments: Path, out: Path, chapter: str, limits: Limits, at_once: int) -> dict[str, list[Any]]:
    """Grade a folder; chapter → marks."""
    the_course = Course(assignments, out)
    if chapter and chapter not in the_course.chapters:
        raise SystemExit(f"No assignment {chapter!r}; there are: {', '.join(the_course.chapters)}.")
    submissions, lines = find(folder, the_course.chapters, chapter)
    the_course.root.mkdir(parents=True, exist_ok=True)
    (the_course.root / "cache" / "matplotlib").mkdir(parents=True, exist_ok=True)
    by_chapter: dict[str, list[Submission]] = {}
    for one in submissions:
        by_chapter.setdefault(one.chapter, []).append(one)
    for name in by_chapter:
        the_course.prepare(name)
    jobs = [Job(the_course.root, s.chapter, s.student, s.file, limits, the_course.chapters) for s in submissions]
    todo = [job for job in jobs if not is_done(job)]
    words = f"{limits.cell_seconds} s a cell, {limits.memory_mb} MB, {network()}"
    print(f"{len(jobs)} submissions, {len(jobs) - len(todo)} of them graded before. Code gets {words}.", flush=True)
    grade_all(todo, at_once)
    refresh_feedback([job for job in jobs if job not in todo])
    return {name: export(the_course, name, found, lines) for name, found in by_chapter.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("submissions", type=Path, help="a folder; for its layouts see scripts/grading/submissions.py")
    parser.add_argument("--chapter", default="", help="the chapter of all files; default: as each file says")
    parser.add_argument("--assignments", type=Path, default=ROOT / "assignments")
    parser.add_argument("--out", type=Path, default=ROOT / "grades", help="the folder of marks (default: grades)")
    parser.add_argument("--at-once", type=int, default=2, help="submissions graded at the same time")
    for limit in fields(Limits):
        name = f"--{limit.name.replace('_', '-')}"
        parser.add_argument(name, type=int, default=limit.default, help=f"for one submission (default: {limit.default})")
    given = parser.parse_args()
    limits = Limits(**{limit.name: getattr(given, limit.name) for limit in fields(Limits)})
    start = time.monotonic()
    graded = run(given.submissions, given.assignments, given.out, given.chapter, limits, given.at_once)
    for name, found in graded.items():
        waiting = sum(len(one.waiting) for one in found)
        print(f"{name}: {len(found)} marks, {waiting} written answers to mark by hand. See {given.out}/report-{name}.md")
    failed = [one.submission.student for found in graded.values() for one in found if one.error]
    print(f"{time.monotonic() - start:.0f} s.")
    if failed:
        sys.exit(f"The grader failed on: {', '.join(failed)}. Look at them by hand.")


if __name__ == "__main__":
    main()
