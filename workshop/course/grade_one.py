"""Grade one submission for another grader, which reads the result from a file.

    .venv-grading/bin/python -m workshop.course.grade_one FOLDER --chapter attention --form gradescope --out FILE

Of the notebooks that are filled in, the one with the assignment's name counts, or else the newest; the result names it.
Without a notebook the result says so. It ends with an error, and writes nothing, where the grader itself failed: that
is no mark.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import nbformat
from nbgrader.utils import is_grade, is_solution  # pyright: ignore[reportMissingImports]

from workshop.course import variants
from workshop.course.grade import ROOT, run
from workshop.course.grading import elsewhere
from workshop.course.grading.one import notebook
from workshop.course.grading.sandbox import Limits
from workshop.course.grading.submissions import files, rank, readable, texts

DRAWN = """\
No points: this notebook holds numbers that were drawn for one student, and they are not known here. Ask your instructor
for the notebook whose numbers are the same for everybody, or hand this one in where your course collects it."""


def notebooks(folder: Path, chapter: str, given: frozenset[str] = frozenset()) -> list[Path]:
    """What the student handed in, that which counts first; checkpoints of Jupyter and hidden folders are not it."""
    found = [path for path in files(folder) if path.suffix == ".ipynb" and not path.is_symlink()]
    return sorted(found, key=lambda path: rank(path, chapter, given), reverse=True)


def chosen(found: list[Path], chapter: str) -> str:
    """A line on which notebook was graded."""
    if not found:
        return f"There is no notebook (.ipynb) among the files: hand in {chapter}.ipynb."
    others = ", ".join(path.name for path in found[1:])
    return f"Graded: {found[0].name}" + (f"; not graded: {others}" if others else "")


def graded(folder: Path, chapter: str, assignments: Path, limits: Limits) -> elsewhere.Marks:
    """The marks of what lies in a folder, as `make grade` would give them.

    Raises:
        SystemExit: the grader failed.
    """
    with tempfile.TemporaryDirectory() as place:
        handed_in = Path(place, "in", "student", chapter, f"{chapter}.ipynb")
        handed_in.parent.mkdir(parents=True)
        found = notebooks(folder, chapter, texts(assignments / "release" / chapter / f"{chapter}.ipynb"))
        is_drawn = bool(found) and variants.is_drawn(found[0])
        if found and not is_drawn:
            shutil.copyfile(found[0], handed_in)
        else:
            handed_in.touch()  # graded as an empty file is
        # Another grader gives each submission a container; not each of those allows a sandbox inside.
        every = run(Path(place, "in"), assignments, Path(place, "out"), chapter, limits, 1, without_sandbox=True)
        marks = every[chapter]
        if not marks or marks[0].error:
            raise SystemExit(f"The grader failed: {marks[0].error if marks else 'no entry in the gradebook'}")
        ran = nbformat.read(notebook(Path(place, "out", "submitted", marks[0].submission.student), chapter), 4)
        written = (cell for cell in ran.cells if is_grade(cell) and is_solution(cell))
        marks[0].written = {cell.metadata.nbgrader.grade_id: cell.source for cell in written}
    events = [DRAWN] if is_drawn else marks[0].events if found else []
    marks[0].events = [readable(chosen(found, chapter)), *events]
    return marks[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or ""), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("submission", type=Path, help="the folder of what was handed in")
    parser.add_argument("--chapter", required=True)
    parser.add_argument("--form", choices=("gradescope", "classroom50"), required=True)
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--assignments", type=Path, default=ROOT / "assignments")
    given = parser.parse_args()
    start = time.monotonic()
    marks = graded(given.submission, given.chapter, given.assignments, Limits())
    if given.form == "gradescope":
        content = elsewhere.gradescope(marks, time.monotonic() - start)
    else:
        content = elsewhere.classroom50(marks, os.environ)
    given.out.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    main()
