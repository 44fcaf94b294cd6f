"""The book's measure: no chapter exceeds it, and no loop is listed twice."""

import re
from pathlib import Path

import pytest

from workshop.site.address import Address
from workshop.site.book_index import Index, read_page
from workshop.site.measure import excess, measure, measured
from workshop.site.plain_markdown import Plain

ROOT = Path(__file__).resolve().parents[2]
PAGE = """\
:::{admonition} How many?
:class: question
**You will be able to** count four words.
:::
Two words, [a link](of_no.md) and $x + y$.

| no | prose |
|---|---|
```{code-cell} ipython3
shown = 1

assert shown
```
```{code-cell} ipython3
:tags: [hide-input]
assert folded(description="a picture")
```
```{code-cell} ipython3
:tags: [remove-cell]
assert in_the_notebook
```
```{code-cell} ipython3
:tags: [remove-cell, book-only]
assert in_the_book_alone
```
```{code-cell} ipython3
:tags: [check]
assert of_an_exercise
```
```{figure} drawings/described.svg
:name: a-drawing
A caption.
```
```{figure} drawings/bare.svg
A caption.
```
```{literalinclude} ../module.py
:pyobject: listed
```
```{literalinclude} ../module.py
:pyobject: listed
:class: run toggle
```
:::{admonition} For experts
:class: dropdown
Folded words.
:::
## Exercises
After them no word counts.
```{code-cell} ipython3
assert but_an_assert_does
```
"""


@pytest.fixture(scope="module")
def found() -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    return measured()


def test_what_a_reader_sees_is_counted(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("def listed():\n    assert True\n\n\nleft_out = 1\n", "utf-8")
    drawings = tmp_path / "book" / "drawings"
    drawings.mkdir(parents=True)
    (drawings / "described.svg").write_text('<svg><title id="t">A title</title></svg>', "utf-8")
    (drawings / "bare.svg").write_text("<svg></svg>", "utf-8")
    file = tmp_path / "book" / "page.md"
    file.write_text(PAGE, "utf-8")
    page = read_page(file)
    found = measure(page, Plain(page, Index([page]), Address("owner", "name"), tmp_path))
    assert found == {"words": 8 + 2 + 2 + 2 + 2 + 2, "lines": 2 + 2, "asserts": 1 + 2 + 1 + 1, "figures": 1 + 1}


def test_no_chapter_exceeds_the_goal_and_no_loop_is_listed_twice(
    found: tuple[dict[str, dict[str, int]], dict[str, int]],
) -> None:
    over = {name: figures for name, figures in excess(*found).items() if figures}
    assert not over, "cut the chapter, or move into a folded box, a hidden cell or a test what it has too much"


def test_a_page_gives_time_to_read_what_it_shows(found: tuple[dict[str, dict[str, int]], dict[str, int]]) -> None:
    hasty = {}
    for name, shown in found[0].items():
        text = (ROOT / "book" / f"{name}.md").read_text("utf-8")
        stated = re.search(r"\*\*Time:\*\* (\d+) minutes(?:, of which (\d+) at the exercises)?\.", text)
        assert stated, f"{name} lacks its **Time:** line"
        reading = int(stated[1]) - int(stated[2] or 0)
        if reading < shown["words"] / 100 + shown["lines"] / 10 + shown["figures"]:
            hasty[name] = reading
    assert not hasty, "a hundred words, ten lines of code or a picture take a minute at least"
