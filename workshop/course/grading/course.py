"""A course folder as nbgrader sees it, and the settings with which nbgrader works here.

As a program it makes the students' version of every assignment in a folder; make_assignments.py starts it.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from nbgrader.apps import NbGraderAPI  # pyright: ignore[reportMissingImports]
from nbgrader.preprocessors import (  # pyright: ignore[reportMissingImports]
    CheckCellMetadata,
    ClearHiddenTests,
    ClearOutput,
    ComputeChecksums,
    LockCells,
    NbGraderPreprocessor,
    SaveCells,
)
from traitlets.config import Config  # pyright: ignore[reportMissingImports]

from workshop.course.grading.submissions import texts

# nbgrader calls alembic as a program; .venv-grading need not be activated for that.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


class StudentVersion(NbGraderPreprocessor):
    """Puts our starters back, where ClearSolutions would write `# YOUR CODE HERE`; takes out what is no student's."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        nb.cells = [cell for cell in nb.cells if cell.metadata.get("book", {}).get("only") != "instructor"]
        for cell in nb.cells:
            cell.source = cell.metadata.get("book", {}).pop("starter", cell.source)
        return nb, resources


# In nbgrader's own order. The hidden checks go after SaveCells, which keeps them for grading.
TO_RELEASE = [LockCells, StudentVersion, ClearOutput, CheckCellMetadata, ComputeChecksums]
TO_FINISH = [ClearHiddenTests, ComputeChecksums, CheckCellMetadata]
# What nbgrader's form reads when an instructor marks written answers in the browser.
CONFIG_FILE = """\
# Written by workshop/course/grade.py. `make mark` starts the form for written answers in this folder: start it in no
# other way, or what students wrote may run in your browser.
from pathlib import Path

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "executable-transformer"
c.CourseDirectory.root = str(Path(__file__).resolve().parent)  # wherever the folder was moved
c.FormgradeApp.enabled = True
"""


def database(root: Path) -> str:
    """The gradebook; two graders at once wait for each other up to a minute."""
    return f"sqlite:///{root / 'gradebook.db'}?timeout=60"


def config(root: Path, with_database: bool = True) -> Config:
    """The settings for the course in a folder."""
    settings = Config()
    settings.CourseDirectory.root = str(root)
    settings.CourseDirectory.course_id = "executable-transformer"
    settings.CourseDirectory.db_url = database(root)
    settings.GenerateAssignment.no_database = not with_database
    settings.GenerateAssignment.preprocessors = [*TO_RELEASE, *([SaveCells] if with_database else []), *TO_FINISH]
    return settings


def release(root: Path, chapter: str, with_database: bool) -> None:
    """Make release/CHAPTER from source/CHAPTER, and note its cells in the gradebook if there is to be one.

    Raises:
        SystemExit: with what nbgrader said, if it did not succeed.
    """
    api = NbGraderAPI(config=config(root, with_database))
    outcome = api.generate_assignment(chapter, force=True, create=with_database)
    if not outcome["success"]:
        if "there are submissions associated" in outcome["log"]:
            sys.exit(
                f"{chapter}: {root} holds marks for other exercises than the book has now. Grade with the version of "
                "the book that you handed out, or give another folder for the marks (OUT=…)."
            )
        sys.exit(f"nbgrader could not make the release of {chapter}:\n{outcome['log']}\n{outcome['error']}")


def gradebook(root: Path) -> Any:
    from nbgrader.api import Gradebook  # pyright: ignore[reportMissingImports]

    return Gradebook(database(root), "executable-transformer")


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

    @property
    def given(self) -> dict[str, frozenset[str]]:
        """Chapter → the texts of the cells that students got."""
        return {name: texts(self.assignments / "release" / name / f"{name}.ipynb") for name in self.chapters}

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
            release(self.root, chapter, with_database=True)
        except SystemExit:
            ours.write_bytes(before) if before else ours.unlink()
            raise
        (self.root / "nbgrader_config.py").write_text(CONFIG_FILE, "utf-8")


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    for source in sorted((root / "source").iterdir()):
        release(root, source.name, with_database=False)
        print(f"{source.name}: the students' version", flush=True)


if __name__ == "__main__":
    main()
