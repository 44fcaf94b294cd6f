"""Grade what students handed in: marks for the course system, a page of feedback for each, a report on the class.

    make grade SUBMISSIONS=folder [CHAPTER=attention] [OUT=grades]

It writes into OUT: marks/CHAPTER.csv, marks/CHAPTER-moodle.csv, marks/CHAPTER-canvas.csv, feedback/STUDENT/CHAPTER/
and the same in feedback-CHAPTER.zip, report-CHAPTER.md, and nbgrader's gradebook.db, in which written answers are
marked by hand. A second run grades only what changed, or what --again names, and keeps the marks given by hand. With a
class list (--class) the report names of whom there is no notebook (grading/class_list.py); with --variants, each
student's numbers are drawn anew from the key of the class (variants.py).

STUDENTS' CODE RUNS ON THIS MACHINE, with limited memory, time and file sizes. Where bubblewrap is installed, each
submission runs in a sandbox of its own that sees Python and the package and nothing else: no file of yours, no other
submission, no marks, no network; every process that it starts ends with it. Where there is no sandbox, nothing runs
without --without-sandbox; the message says what that means.
"""

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from workshop.course import variants
from workshop.course.grading import class_list
from workshop.course.grading import submissions as layouts
from workshop.course.grading.counted import counted
from workshop.course.grading.course import Course
from workshop.course.grading.execute import PYTHON
from workshop.course.grading.export import export
from workshop.course.grading.marks import Marks
from workshop.course.grading.one import Job
from workshop.course.grading.pool import grade_all
from workshop.course.grading.sandbox import WITHOUT, Limits, broken, warned
from workshop.course.grading.submissions import Line, Submission, find

ROOT = Path(__file__).resolve().parents[2]


def is_done(job: Job) -> bool:
    """Whether this submission was graded before, as it is now; a damaged record means that it is graded again."""
    record = job.recorded()
    same = bool(record) and not record["error"] and record["fingerprint"] == job.fingerprint()
    return same and job.of_student("autograded").exists()


def keep_key(root: Path, chapters: Iterable[str], key: bytes) -> None:
    """Note the key of these chapters in the folder of marks: with another one right answers would be taken for wrong.

    Raises:
        SystemExit: another key was noted for one of them, or this run has none.
    """
    digest = hashlib.sha256(key).hexdigest()
    notes = {chapter: root / f"class-key-{chapter}.sha256" for chapter in chapters}
    for chapter, noted in notes.items():
        if noted.exists() and noted.read_text("utf-8") != digest:
            raise SystemExit(
                f"error: {chapter} in {root} was graded with the key of a class: name it again "
                "(--class … --variants …), or name another folder for the marks (OUT=…)."
            )
    for noted in notes.values() if key else ():
        noted.write_text(digest, "utf-8")


def refuse_drawn(submissions: list[Submission]) -> None:
    """Stop where the notebooks of a chapter hold numbers that a key drew, and no key is given.

    Raises:
        SystemExit: it is half of them or more; right answers to them would lose their points.
    """
    for chapter, found in groupby(submissions, key=attrgetter("chapter")):
        drawn = [variants.is_drawn(one.file) for one in found]
        if 2 * sum(drawn) >= len(drawn):
            raise SystemExit(
                f"error: notebooks of {chapter} ({sum(drawn)} of {len(drawn)}) hold numbers that were drawn for their "
                "students. Name the class and its key: --class class.csv --variants class.key"
            )


def handed_in(
    folder: Path, the_course: Course, chapter: str, students: dict[str, str] | None, key: bytes
) -> tuple[list[Submission], list[Line]]:
    """What is to be graded, and lines on what is not and on who is not on the class list.

    Raises:
        SystemExit: none, files that the marks would replace, or drawn numbers that belong to nobody.
    """
    submissions, lines = find(folder, the_course.chapters, chapter, the_course.given)
    for one in submissions:
        if one.file.resolve().is_relative_to(the_course.root):
            raise SystemExit(
                f"{one.file} lies in {the_course.root}, where the marks go and files of the same name are replaced. "
                "Name another folder for the marks (OUT=…), or move the submissions."
            )
    if not key:
        refuse_drawn(submissions)
    if students is None:
        return submissions, lines
    submissions = class_list.with_students(students, submissions)
    strangers = [one for one in submissions if not one.listed]
    if key and strangers:
        names = ", ".join(one.file.name for one in strangers)
        raise SystemExit(
            f"error: numbers are drawn for the students of the class list; not on it: {names}. "
            "Add their names to it, or name the files as it does."
        )
    for one in strangers:
        file = one.file.relative_to(folder)
        perhaps = " or ".join(class_list.may_be(students, file)) or "nobody whose whole name stands there"
        text = f"{file}: marked as {one.student}, who is not on the class list; there may be: {perhaps}"
        lines.append(Line(text, one.chapter))
    return submissions, lines


def run(
    folder: Path,
    assignments: Path,
    out: Path,
    chapter: str,
    limits: Limits,
    at_once: int,
    students: dict[str, str] | None = None,
    key: bytes = b"",
    again: Sequence[str] = (),
    without_sandbox: bool = False,
) -> dict[str, list[Marks]]:
    """Grade a folder; chapter → marks.

    Args:
        students: those of the class list.
        key: that of the class.
        again: students to grade anew, as the table of marks names them.
        without_sandbox: go on where there is none.
    """
    print(f"Looking through {folder}.", flush=True)
    if unprotected := warned(PYTHON, without_sandbox):
        print(unprotected, end="", flush=True)
        os.environ[WITHOUT] = "1"
    if why := broken(PYTHON):
        raise SystemExit(f"No submission can run here, not even a right one: {why}\nRun `make env` in {ROOT}.")
    the_course = Course(assignments, out)
    if chapter and chapter not in the_course.chapters:
        raise SystemExit(f"No assignment {chapter!r}; there are: {', '.join(the_course.chapters)}.")
    submissions, lines = handed_in(folder, the_course, chapter, students, key)
    if unknown := sorted({*again} - {one.student for one in submissions}):
        how = "name a student as the table does, in quotes: ARGS=\"--again 'Ada Lovelace 77'\""
        raise SystemExit(f"error: --again: no submission of {', '.join(unknown)}; {how}")
    (the_course.root / "cache" / "matplotlib").mkdir(parents=True, exist_ok=True)
    # They come chapter by chapter.
    by_chapter = {name: [*found] for name, found in groupby(submissions, key=attrgetter("chapter"))}
    keep_key(the_course.root, by_chapter, key)
    for name, found in by_chapter.items():
        print(f"{name}: {counted(len(found), 'notebook')}. nbgrader reads its assignment.", flush=True)
        the_course.prepare(name)
    jobs = [Job(the_course.root, one, limits, the_course.chapters, key) for one in submissions]
    todo = [job for job in jobs if job.submission.student in again or not is_done(job)]
    words = f"Code gets {limits.cell_seconds} s a cell, {limits.memory_mb} MB"
    print(f"{counted(len(jobs), 'submission')}; graded before: {len(jobs) - len(todo)}. {words}.", flush=True)
    for line in dict.fromkeys(lines):  # of two chapters once
        print(f"  {line}", flush=True)
    grade_all(todo, at_once)
    own = {name: [line for line in lines if line.chapter in {"", name}] for name in by_chapter}
    return {name: export(the_course, name, found, own[name], students) for name, found in by_chapter.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=layouts.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("submissions", type=Path, help="a folder, in one of the layouts below")
    parser.add_argument("--chapter", default="", help="the chapter of all files; default: as each file says")
    parser.add_argument("--assignments", type=Path, default=ROOT / "assignments")
    parser.add_argument("--out", type=Path, default=ROOT / "grades", help="the folder of marks (default: grades)")
    parser.add_argument("--at-once", type=int, default=2, help="submissions graded at the same time")
    for limit in fields(Limits):
        name, what = f"--{limit.name.replace('_', '-')}", limit.metadata["for"]
        parser.add_argument(name, type=int, default=limit.default, help=f"{what} (default: {limit.default})")
    parser.add_argument("--class", dest="class_list", type=Path, help="a table (CSV) with the column student")
    parser.add_argument("--variants", type=Path, help="the file of the class key, if handed out with it; needs --class")
    parser.add_argument("--again", nargs="+", default=[], metavar="STUDENT", help="grade these anew, changed or not")
    parser.add_argument("--without-sandbox", action="store_true", help="go on where there is none")
    given = parser.parse_args()
    if given.at_once < 1:
        parser.error(f"--at-once {given.at_once}: one submission at a time is the least")
    limits = Limits(**{limit.name: getattr(given, limit.name) for limit in fields(Limits)})
    known = variants.read_class(given.class_list, given.variants, "--class")
    start = time.monotonic()
    try:
        graded = run(
            *(given.submissions, given.assignments, given.out, given.chapter, limits, given.at_once, *known),
            again=given.again,
            without_sandbox=given.without_sandbox,
        )
    except KeyboardInterrupt:
        sys.exit("\nStopped. What was graded is kept; the same command goes on with the rest.")
    for name, found in graded.items():
        waiting = sum(len(one.unmarked) for one in found)
        print(
            f"{name}: {counted(len(found), 'mark')}, {counted(waiting, 'written answer')} to mark by hand. "
            f"See {given.out}/report-{name}.md"
        )
    failed = [one.submission.student for found in graded.values() for one in found if one.error]
    print(f"{time.monotonic() - start:.0f} s.")
    if failed:
        sys.exit(f"The grader failed on: {', '.join(failed)}. Look at them by hand.")


if __name__ == "__main__":
    main()
