"""Make the assignments of all chapters: versions for the instructor and for students, rubrics, a table of exercises.

    python -m workshop.course.make_assignments [attention …]

    assignments/source/CHAPTER/CHAPTER.ipynb    with solutions and hidden checks
    assignments/release/CHAPTER/CHAPTER.ipynb   for students, made by nbgrader
    assignments/rubrics/CHAPTER.md              how to mark it
    assignments/exercises.csv                   every exercise: label, kind, minutes, points, what it teaches

The same chapters always give the same bytes. What must not be published is in source/ and rubrics/.
"""

import argparse
import os
import shutil
import subprocess
import time
from pathlib import Path

from workshop.course import assignment_papers
from workshop.course.assignment_notebook import assignment, assignment_text
from workshop.course.exercises import Exercise, exercises_of
from workshop.site.address import configured
from workshop.site.book_index import Index, Page, pages_in_order, read_page
from workshop.site.myst_blocks import PageError
from workshop.site.plain_markdown import Plain

ROOT = Path(__file__).resolve().parents[2]
GRADING_PYTHON = ROOT / ".venv-grading" / "bin" / "python"


def has_tasks(page: Page) -> bool:
    """Whether the page has exercises that can be handed out."""
    return any(block.name == "task" for block in page.blocks)


def chapters(names: list[str] | None = None) -> dict[str, tuple[Page, Plain, list[Exercise]]]:
    """Name → page, its renderer and its exercises, for the chapters that have any.

    Raises:
        SystemExit: if a chapter that was asked for has none.
    """
    pages = [read_page(path) for path in pages_in_order(ROOT)]
    index = Index(pages, ROOT / "book" / "references.bib")
    address = configured(ROOT)
    found = {}
    for page in pages:
        if has_tasks(page) and (not names or page.name in names):
            found[page.name] = (page, Plain(page, index, address, ROOT), exercises_of(page))
    if unknown := sorted(set(names or []) - set(found)):
        raise SystemExit(f"No exercises to hand out in: {', '.join(unknown)}. Chapters: `make assignments`.")
    return found


def write_sources(out: Path, names: list[str] | None = None) -> list[str]:
    """Write everything but the release; the names of the chapters. What stands there of other chapters stays."""
    found = chapters(names)
    for folder in ("source", "release"):
        for path in [out / folder / name for name in found] if names else [out / folder]:
            shutil.rmtree(path, ignore_errors=True)
    if not names:
        shutil.rmtree(out / "rubrics", ignore_errors=True)
    for name, (page, plain, exercises) in found.items():
        source = out / "source" / name / f"{name}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_text(assignment_text(assignment(page, plain, configured(ROOT))), "utf-8")
        marking = out / "rubrics" / f"{name}.md"
        marking.parent.mkdir(exist_ok=True)
        marking.write_text(assignment_papers.rubric(page, plain, exercises), "utf-8")
    every = chapters().values() if names else found.values()
    lines = [row for page, plain, exercises in every for row in assignment_papers.rows(page, plain, exercises)]
    (out / "exercises.csv").write_text(assignment_papers.table(lines), "utf-8")
    return list(found)


def make_release(out: Path) -> None:
    """Let nbgrader make the students' versions, in its own environment."""
    if not GRADING_PYTHON.exists():
        raise SystemExit(f"{GRADING_PYTHON} is missing: run `make grading-env` first.")
    command = [GRADING_PYTHON, "-m", "workshop.course.grading.release", out.resolve()]
    environment = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1"}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        raise SystemExit("nbgrader did not make the students' versions: see above.")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("chapters", nargs="*", help="default: all that have exercises")
    parser.add_argument("--out", type=Path, default=ROOT / "assignments")
    arguments = parser.parse_args()
    start = time.monotonic()
    try:
        names = write_sources(arguments.out, arguments.chapters)
    except PageError as error:
        raise SystemExit(f"book/{error}") from None
    make_release(arguments.out)
    print(f"{len(names)} assignments in {arguments.out}: {time.monotonic() - start:.0f} s. Hand out release/CHAPTER/.")


if __name__ == "__main__":
    main()
