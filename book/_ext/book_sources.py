"""What a reader downloads of a page: its source without the solutions, and the notebook that students get.

The theme copies both as they were executed, with the solutions and the checks that only a grader runs.
"""

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

FENCE = r"^(?P<fence>`{3,}|:{3,})"
GATED = re.compile(
    rf"{FENCE}\{{solution-start\}}.*?^(?P<last>`{{3,}}|:{{3,}})\{{solution-end\}}[^\n]*\n(?P=last)[ ]*\n?",
    re.MULTILINE | re.DOTALL,
)
SINGLE = re.compile(rf"{FENCE}\{{solution\}}.*?^(?P=fence)[ ]*\n?", re.MULTILINE | re.DOTALL)


def without_solutions(text: str) -> str:
    """A page's source without its solutions."""
    return re.sub(r"\n{3,}", "\n\n", SINGLE.sub("", GATED.sub("", text)))


def publish(app: Sphinx, exception: Exception | None) -> None:
    """Put what may be public in the place of what the theme copied."""
    if exception or app.builder.name != "html":
        return
    folder = Path(app.outdir) / "_sources"
    for page in folder.rglob("*.md"):
        page.write_text(without_solutions(page.read_text("utf-8")), "utf-8")
    for executed in folder.rglob("*.ipynb"):
        student = Path(app.srcdir, app.config.book_notebooks_dir, executed.name)
        if student.exists():
            shutil.copyfile(student, executed)
        else:
            executed.unlink()
