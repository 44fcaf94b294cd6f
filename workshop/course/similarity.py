"""Which answers of a class resemble each other: a page of pairs, with the passages that they share.

    .venv-grading/bin/python -m workshop.course.similarity attention [--marks grades]

Run it after `make grade`. It compares the code that students wrote, also with the chapter's own solution, by
copydetect, which looks through other names and comments (Schleimer, Wilkerson and Aiken, 2003, "Winnowing"). The
starters do not count. A short exercise has few right answers, so likeness is a reason to look, never a proof.
"""

import argparse
import csv
import json
import tempfile
from pathlib import Path
from typing import Any

from jinja2 import Template

from workshop.course.grading import marks

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = "the book's solution"
PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Likeness: {{ chapter }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 0 auto; padding: 1rem; }
summary { cursor: pointer; } section { display: flex; gap: 1rem; } section > div { width: 50%; }
pre { background: #f4f4f4; padding: .6rem; font-size: .875rem; white-space: pre-wrap; overflow-wrap: anywhere; }
pre span { background: #ffe08a; text-decoration: underline; }
</style>
</head>
<body>
<h1>{{ chapter }}: {{ pairs | length }} pairs of answers that resemble each other</h1>
<p>{{ students }} students wrote code. Each percentage says how much of that student's code stands in the other's as
well, under other names perhaps; shared passages are underlined. A short exercise has few right answers.</p>
{%- for mine, theirs, one, other, code, code_of_other in pairs %}
<details><summary>{{ one | e }} ({{ "%.0f" | format(100 * mine) }} %) and
{{ other | e }} ({{ "%.0f" | format(100 * theirs) }} %)</summary>
<section><div><h2>{{ one | e }}</h2><pre>{{ code }}</pre></div>
<div><h2>{{ other | e }}</h2><pre>{{ code_of_other }}</pre></div></section></details>
{%- endfor %}
</body>
</html>
"""
)
Pair = tuple[float, float, str, str, str, str]  # two shares, two names, two codes as HTML with what they share marked


def written(path: Path) -> dict[str, str]:
    """Answer, or cell of the student's own → its code, from a notebook of nbgrader's."""
    cells: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    found = {}
    for number, cell in enumerate(cells):
        role = cell["metadata"].get("nbgrader", {})
        is_students = not role.get("locked") and not cell["metadata"].get("book", {}).get("drawn")
        if cell["cell_type"] == "code" and is_students:
            found[role.get("grade_id") or f"cell {number}"] = "".join(cell["source"])
    return found


def answers(root: Path, chapter: str) -> dict[str, str]:
    """Student → the code that the student wrote; who left every starter as it was is not there.

    Raises:
        ValueError: nothing of this chapter was graded.
    """
    files = {path.parent.parent.name: path for path in sorted(root.glob(f"submitted/*/{chapter}/{chapter}.ipynb"))}
    table = root / "marks" / f"{chapter}.csv"
    if table.exists():  # who was graded under an earlier name, or handed in no longer, does not stand there
        with table.open(encoding="utf-8", newline="") as opened:
            students = {row["student"] for row in csv.DictReader(opened)}
        files = {name: path for name, path in files.items() if marks.cell(name) in students}
    if not files:
        raise ValueError(f"{root} holds no submission of {chapter!r}: run `make grade` first, or name its folder")
    starters = written(root / "release" / chapter / f"{chapter}.ipynb").items()
    files[SOLUTION] = root / "source" / chapter / f"{chapter}.ipynb"
    new = {
        name: [text for cell, text in written(path).items() if (cell, text) not in starters]
        for name, path in files.items()
    }
    return {name: "\n\n".join(texts) + "\n" for name, texts in new.items() if "".join(texts).strip()}


def alike(codes: dict[str, str], starters: str, share: float) -> list[Pair]:
    """Pairs of which one stands in the other to this share or more, the most alike first."""
    from copydetect import CopyDetector  # pyright: ignore[reportMissingImports]

    names = [*codes]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for kind in ("answers", "starters"):
            (folder / kind).mkdir()
        (folder / "starters" / "starters.py").write_text(starters, "utf-8")
        for number, name in enumerate(names):
            (folder / "answers" / f"{number}.py").write_text(codes[name], "utf-8")
        detector = CopyDetector(
            test_dirs=[str(folder / "answers")],
            boilerplate_dirs=[str(folder / "starters")],
            extensions=["py"],
            display_t=share,
            silent=True,
            autoopen=False,
        )
        detector.run()
        found = detector.get_copied_code_list()

    def whose(file: str) -> str:
        return names[int(Path(file).stem)]

    return [(mine, theirs, whose(one), whose(other), *marked[:2]) for mine, theirs, one, other, *marked in found]


def report(root: Path, chapter: str, share: float) -> Path:
    """Write the page; its path."""
    codes = answers(root, chapter)
    starters = "\n\n".join(written(root / "release" / chapter / f"{chapter}.ipynb").values())
    pairs = alike(codes, starters, share)
    students = len(codes.keys() - {SOLUTION})
    page = root / f"similarity-{chapter}.html"
    page.write_text(PAGE.render(chapter=chapter, students=students, pairs=pairs), "utf-8")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapter")
    parser.add_argument("--marks", type=Path, default=ROOT / "grades", help="the folder of marks (default: grades)")
    parser.add_argument("--share", type=float, default=0.8, help="show pairs from this share on (default: 0.8)")
    given = parser.parse_args()
    try:
        print(report(given.marks, given.chapter, given.share))
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
