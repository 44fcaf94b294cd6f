"""Make the assignments of all chapters: versions for the instructor and for students, rubrics, syllabi.

    python -m workshop.course.make_assignments [attention …]

    assignments/source/CHAPTER/CHAPTER.ipynb    with solutions and hidden checks
    assignments/release/CHAPTER/CHAPTER.ipynb   for students, made by nbgrader
    assignments/rubrics/CHAPTER.md              how to mark it
    assignments/syllabus-COURSE.md              a syllabus to adapt and to hand out

With the key of a class and its list, `--variants class.key --students class.csv`, each student has other numbers:

    assignments/variants/CHAPTER/STUDENT_CHAPTER.ipynb    the release with the numbers of one student

The same chapters always give the same bytes. What must not be published is in source/ and rubrics/.
"""

import argparse
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from workshop.course import assignment_papers, variants
from workshop.course.assignment_notebook import assignment, assignment_text
from workshop.course.exercises import Exercise, exercises_of
from workshop.course.grading.counted import counted
from workshop.course.grading.submissions import safe
from workshop.course.try_exercises import try_page
from workshop.site import teaching_plan
from workshop.site.address import configured
from workshop.site.book_index import Page
from workshop.site.myst_blocks import PageError
from workshop.site.plain_markdown import Plain, whole_book

ROOT = Path(__file__).resolve().parents[2]
GRADING_PYTHON = ROOT / ".venv-grading" / "bin" / "python"


def chapters(names: list[str] | None = None) -> dict[str, tuple[Page, Plain, list[Exercise]]]:
    """Name → page, its renderer and its exercises, for the chapters that have any.

    Raises:
        SystemExit: if a chapter that was asked for has none.
    """
    found = {
        name: (plain.page, plain, exercises)
        for name, plain in whole_book(ROOT).items()
        if (not names or name in names) and (exercises := exercises_of(plain.page))
    }
    if unknown := sorted(set(names or []) - set(found)):
        raise SystemExit(f"No exercises to hand out in: {', '.join(unknown)}. Chapters: `make assignments`.")
    return found


def write_sources(out: Path, names: list[str] | None = None) -> list[str]:
    """Write sources and rubrics; return the chapters' names. With `names`, other chapters' files stay."""
    found = chapters(names)
    for folder in ("source", "release", "variants", "rubrics"):
        for path in [out / folder / name for name in found] if names else [out / folder]:
            shutil.rmtree(path, ignore_errors=True)
    for name, (page, plain, exercises) in found.items():
        print(f"{name}: the instructor's version", flush=True)
        source = out / "source" / name / f"{name}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_text(assignment_text(assignment(page, plain, configured(ROOT))), "utf-8")
        marking = out / "rubrics" / f"{name}.md"
        marking.parent.mkdir(exist_ok=True)
        marking.write_text(assignment_papers.rubric(page, plain, exercises), "utf-8")
    for course in teaching_plan.courses(ROOT):
        text = teaching_plan.syllabus(ROOT, course, configured(ROOT).site)
        (out / f"syllabus-{course.replace(' ', '-')}.md").write_text(text, "utf-8")
    return list(found)


def make_release(out: Path) -> None:
    """Let nbgrader make the students' versions, in its own environment."""
    if not GRADING_PYTHON.exists():
        raise SystemExit(f"{GRADING_PYTHON} is missing: run `make grading-env` first.")
    command = [GRADING_PYTHON, "-m", "workshop.course.grading.course", out.resolve()]
    environment = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1"}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        raise SystemExit("nbgrader did not make the students' versions: see above.")


def write_variants(out: Path, names: list[str], key: bytes, students: Iterable[str]) -> None:
    """Write the release once for each student, with numbers of their own.

    Raises:
        SystemExit: an answer does not earn what it should with some numbers.
    """
    if faults := [fault for name in names for fault in try_page(name, show=False, with_numbers_alone=True)]:
        raise SystemExit("error: no numbers are drawn: " + "; ".join(faults))
    for name in names:
        release = (out / "release" / name / f"{name}.ipynb").read_text("utf-8")
        for student in students:
            notebook = json.loads(release)
            variants.put_in(notebook, key, student)
            target = out / "variants" / name / f"{safe(student)}_{name}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(assignment_text(notebook), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("chapters", nargs="*", help="default: all that have exercises")
    parser.add_argument("--out", type=Path, default=ROOT / "assignments")
    parser.add_argument(
        "--variants", type=Path, help="the file of the class key: each student gets numbers of their own"
    )
    parser.add_argument("--students", type=Path, help="the class list (CSV), with the column student")
    arguments = parser.parse_args()
    start = time.monotonic()
    students, key = variants.read_class(arguments.students, arguments.variants, "--students")
    if students is not None and not (students and key):
        raise SystemExit(f"error: {arguments.students}: no student is on it, or --variants, its key, is missing")
    try:
        names = write_sources(arguments.out, arguments.chapters)
    except PageError as error:
        raise SystemExit(f"book/{error}") from None
    make_release(arguments.out)
    if key:
        write_variants(arguments.out, names, key, students or ())
        print(f"{arguments.out}/variants/CHAPTER/: a notebook for each of the class ({len(students or ())}).")
    made = f"{counted(len(names), 'assignment')} in {arguments.out}: {time.monotonic() - start:.0f} s"
    print(f"{made}. Hand out release/CHAPTER/.")


if __name__ == "__main__":
    main()
