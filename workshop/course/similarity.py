"""Which answers of a class resemble each other: a page of pairs, with the passages that they share.

    .venv-grading/bin/python -m workshop.course.similarity attention [--marks grades]

Run it after `make grade`. It compares what students wrote, also with the chapter's own solution, by copydetect
(Schleimer, Wilkerson and Aiken, 2003, "Winnowing"): code, looking through other names and comments, and written
answers, letter by letter in lower case; who says the same in other words is not found. The starters do
not count. A short exercise has few right answers, so likeness is a reason to look, never a proof.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from workshop.course.grading import class_list
from workshop.site.filled import filled

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = "the book's solution"


def written(path: Path, kind: str) -> str:
    """The cells of a kind, code or markdown, that are a student's to write, from a notebook of nbgrader's."""
    cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == kind]
    roles = (cell["metadata"].get("nbgrader", cell["metadata"].get("book", {})) for cell in cells)
    own = [
        "".join(cell["source"])
        for cell, role in zip(cells, roles, strict=True)
        if (role.get("solution") if kind == "markdown" else not (role.get("locked") or role.get("drawn")))
    ]
    return "\n\n".join(own if kind == "code" else [" ".join(one.casefold().split()) for one in own]) + "\n"


def notebooks(root: Path, chapter: str) -> dict[str, Path]:
    """Student → what was graded, of those who stand in the table of marks; and the book's solution.

    Raises:
        SystemExit: nothing of this chapter was graded.
    """
    table = root / "marks" / f"{chapter}.csv"
    if not table.exists():
        raise SystemExit(f"error: {root} holds no marks of {chapter!r}: run `make grade` first, or name its folder")
    students = [name.removeprefix("'") for name in class_list.read(table)]
    found = {name: root / "submitted" / name / chapter / f"{chapter}.ipynb" for name in students}
    found[SOLUTION] = root / "source" / chapter / f"{chapter}.ipynb"
    return {name: path for name, path in found.items() if path.exists()}


def pairs(root: Path, chapter: str, share: float, kind: str) -> list[Any]:
    """The pairs whose cells of a kind stand in each other to this share or more."""
    from copydetect import CopyDetector  # pyright: ignore[reportMissingImports]

    starters = root / "release" / chapter / f"{chapter}.ipynb"
    with tempfile.TemporaryDirectory() as place:
        answers, given = Path(place, "answers"), Path(place, "starters")
        for folder, files in ((answers, notebooks(root, chapter)), (given, {"starters": starters})):
            folder.mkdir()
            for name, path in files.items():
                (folder / f"{name}.py").write_text(written(path, kind), "utf-8")
        as_text = kind != "code"
        detector = CopyDetector(
            [str(answers)], None, [str(given)], ["py"], display_t=share, silent=True, disable_filtering=as_text
        )
        detector.run()
        return detector.get_copied_code_list()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapter")
    parser.add_argument("--marks", type=Path, default=ROOT / "grades", help="the folder of marks (default: grades)")
    parser.add_argument("--share", type=float, default=0.8, help="show pairs from this share on (default: 0.8)")
    given = parser.parse_args()
    found = {kind: pairs(given.marks, given.chapter, given.share, kind) for kind in ("code", "markdown")}
    page = given.marks / f"similarity-{given.chapter}.html"
    text = filled("similarity.html", chapter=given.chapter, found=found, whose=lambda file: Path(file).stem)
    page.write_text(text, "utf-8")
    print(page)


if __name__ == "__main__":
    main()
