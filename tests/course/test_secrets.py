"""What only an instructor may see, solutions, hidden checks and typical mistakes, is in nothing that is published."""

import html
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from zoo import PYTHON

from workshop.course import make_assignments
from workshop.course.exercises import tags
from workshop.course.make_assignments import chapters
from workshop.site import make_notebooks
from workshop.site.book_index import pages_in_order, read_page
from workshop.site.book_site import without_solutions

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
SECRET = {"solution", "hidden-check", "wrong-answer"}


@cache
def secret_lines() -> dict[str, str]:
    """Line of a secret cell that stands nowhere else in the book, the package and its tests → page and role."""
    pages = [read_page(path) for path in pages_in_order(ROOT)]
    cells = [(page.name, block) for page in pages for block in page.blocks if block.name == "code-cell"]
    public = "\n".join(without_solutions(path.read_text("utf-8")) for path in pages_in_order(ROOT))
    code = [path for name in ("transformer_lib", "transformer_run", "tests") for path in (ROOT / name).rglob("*.py")]
    public += "\n".join(path.read_text("utf-8") for path in code)
    found = {}
    for name, block in ((name, block) for name, block in cells if SECRET & set(tags(block))):
        for line in map(str.strip, block.text.splitlines()):
            if len(line) > 30 and line not in public:
                found.setdefault(line, f"{name}, {tags(block)[0]}")  # a line of a solution stands on the site
    return found


def leaked(text: str, lines: dict[str, str]) -> list[str]:
    return [f"{where}: {line}" for line, where in lines.items() if line in text]


def shown(page: str) -> str:
    """The words of an HTML page, of its listings too, where each token stands in a tag of its own."""
    return html.unescape(re.sub(r"<[^>]+>", "", page))


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """The repository with a mark in every secret cell."""
    root = tmp_path / "planted"
    for name in ("book", "transformer_lib", "transformer_run", "tests", "experiments", "benchmarks", "workshop"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("vendor", "pretrained", "__pycache__"))
    for path in (path for path in ROOT.iterdir() if path.is_file()):
        shutil.copy(path, root / path.name)
    for path in pages_in_order(root):
        lines, page = path.read_text("utf-8").splitlines(), read_page(path)
        secret = [block for block in page.blocks if block.name == "code-cell" and SECRET & set(tags(block))]
        for number, block in sorted(enumerate(secret), reverse=True):
            lines.insert(block.body_line - 1, f"# planted-{page.name}-{number}")
        path.write_text("\n".join(lines) + "\n", "utf-8")
    return root


@pytest.mark.deep
def test_a_mark_in_every_secret_reaches_the_instructor_and_no_student(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make_assignments, "ROOT", planted)
    out = tmp_path / "assignments"
    names = make_assignments.write_sources(out)
    marked = [name for name in names if f"planted-{name}-" in (planted / "book" / f"{name}.md").read_text("utf-8")]
    assert len(marked) > 20
    for name in marked:
        assert f"planted-{name}-" in (out / "source" / name / f"{name}.ipynb").read_text("utf-8"), "the marks work"
    public = make_notebooks.all_notebooks(planted)
    assert len(public) > len(names)
    assert not [name for name, text in public.items() if "planted-" in text]
    for path in pages_in_order(planted):
        assert "planted-" not in without_solutions(path.read_text("utf-8")), path.name
    if not PYTHON.exists():
        pytest.skip("needs .venv-grading for the release: run `make grading-env`")
    make_assignments.make_release(out)
    for name in names:
        assert "planted-" not in (out / "release" / name / f"{name}.ipynb").read_text("utf-8"), name


def test_sources_lose_their_solutions_and_nothing_else() -> None:
    gated = "Before.\n\n```{solution-start} ex-a\n:class: dropdown\n```\nSecret.\n\n```{code-cell}\nx\n```\n"
    assert without_solutions(f"{gated}```{{solution-end}}\n```\n\nAfter.\n") == "Before.\n\n\nAfter.\n"
    for path in pages_in_order(ROOT):
        page = path.read_text("utf-8")
        assert without_solutions(page).count("\n```{exercise-start}") == page.count("\n```{exercise-start}")


@pytest.mark.slow
def test_the_built_site_holds_no_hidden_check() -> None:
    if not (SITE / "index.html").exists():
        pytest.skip("the site is not built: run `make book` first")
    every = secret_lines()
    hidden = {line: where for line, where in every.items() if "hidden-check" in where}
    listing = highlight("\n".join(hidden), PythonLexer(), HtmlFormatter())
    assert len(leaked(shown(listing), hidden)) == len(hidden), "a leak into a listing would be seen"
    for path in sorted([*SITE.rglob("*.html"), *SITE.rglob("searchindex.js")]):
        assert leaked(shown(path.read_text("utf-8")), hidden) == [], path.name
    for path in sorted(path for path in SITE.rglob("*") if path.suffix in {".ipynb", ".md"}):  # to download
        assert leaked(path.read_text("utf-8").replace('\\"', '"'), every) == [], path.name


@pytest.mark.slow
def test_what_a_wheel_carries_beside_its_code_holds_no_secret() -> None:
    """Its code is public by the definition of a secret; test_release.py says that a wheel carries nothing else."""
    lines = secret_lines()
    assert len(lines) >= 3 * len(chapters())
    beside = [path for path in (ROOT / "transformer_run").rglob("*") if path.is_file() and path.suffix != ".py"]
    for path in [ROOT / "README.md", ROOT / "LICENSE", ROOT / "pyproject.toml", *beside]:
        assert leaked(path.read_bytes().decode("utf-8", "ignore"), lines) == [], path.name
