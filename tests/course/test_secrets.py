"""What only an instructor may see, solutions, hidden checks and typical mistakes, is in nothing that is published."""

import html
import re
from functools import cache
from pathlib import Path

import pytest
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

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


def plain(notebook: str) -> str:
    """A notebook's text with its quotation marks as they stand in code."""
    return notebook.replace('\\"', '"')


def shown(page: str) -> str:
    """The words of an HTML page, of its listings too, where each token stands in a tag of its own."""
    return html.unescape(re.sub(r"<[^>]+>", "", page))


@pytest.mark.slow
def test_what_students_are_given_holds_no_secret(assignments: Path) -> None:
    lines = secret_lines()

    def leaky(folder: str) -> list[str]:
        texts = {path.stem: plain(path.read_text("utf-8")) for path in (assignments / folder).rglob("*.ipynb")}
        return [name for name, text in texts.items() if leaked(text, lines)]

    assert len(leaky("source")) > 20, "a leak would be seen"
    assert leaky("release") == []
    for name, text in make_notebooks.all_notebooks(ROOT).items():
        assert leaked(plain(text), lines) == [], name


def test_sources_lose_their_solutions_and_nothing_else() -> None:
    gated = "Before.\n\n```{solution-start} ex-a\n:class: dropdown\n```\nSecret.\n\n```{code-cell}\nx\n```\n"
    assert without_solutions(f"{gated}```{{solution-end}}\n```\n\nAfter.\n") == "Before.\n\n\nAfter.\n"
    for path in pages_in_order(ROOT):
        page = path.read_text("utf-8")
        assert without_solutions(page).count("\n```{exercise-start}") == page.count("\n```{exercise-start}")
        assert not re.search(rf":tags: .*({'|'.join(SECRET)})\b", without_solutions(page)), path.name


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
        assert leaked(plain(path.read_text("utf-8")), every) == [], path.name


@pytest.mark.slow
def test_what_a_wheel_carries_beside_its_code_holds_no_secret() -> None:
    """Its code is public by the definition of a secret; test_release.py says that a wheel carries nothing else."""
    lines = secret_lines()
    assert len(lines) >= 3 * len(chapters())
    beside = [path for path in (ROOT / "transformer_run").rglob("*") if path.is_file() and path.suffix != ".py"]
    for path in [ROOT / "README.md", ROOT / "LICENSE", ROOT / "pyproject.toml", *beside]:
        assert leaked(path.read_bytes().decode("utf-8", "ignore"), lines) == [], path.name
