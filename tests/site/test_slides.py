"""The slides: what a chapter gives to a lecture, and that a deck needs nothing from another host."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from browser import ROOT, axe_findings, recorded
from playwright.sync_api import BrowserContext

from workshop.site import make_slides
from workshop.site.plain_markdown import whole_book

PNG = "iVBORw0KGgo="


def pretended(blocks) -> nbformat.NotebookNode:
    """The page as if executed: each cell that says what its picture shows has drawn one."""
    cells = []
    for block in blocks:
        if block.name != "code-cell":
            continue
        cell = nbformat.v4.new_code_cell(block.text)
        cell.metadata.update({key: value for key, value in block.options.items() if key == "mystnb"})
        if "plt.show()" in block.text:
            cell.outputs = [nbformat.v4.new_output("display_data", {"image/png": PNG})]
        cells.append(cell)
    return nbformat.v4.new_notebook(cells=cells)


def lecture(name, blocks=None):
    """The slides of a chapter of which all blocks, or these, were executed."""
    plain = whole_book()[name]
    executed = pretended(plain.page.blocks if blocks is None else blocks)
    return make_slides.Lecture(plain.page, plain, executed).make()


CHAPTERS = [name for _, names in make_slides.parts() for name in names]


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_becomes_a_lecture(name):
    page, slides = whole_book()[name].page, lecture(name)
    drawn = sum(block.name == "figure" for block in page.blocks)
    assert sum("image/svg+xml" in slide.text for slide in slides) == drawn
    assert page.title in slides[0].text
    assert "You will be able to" in slides[0].text
    assert "To take away" in slides[-1].text
    pictures = [slide for slide in slides if PNG in slide.text]
    assert all(re.search(r'alt="[^"]{60}', slide.text) for slide in pictures)
    assert not any("solution" in slide.text.lower() for slide in slides)
    assert all(slide.notes and slide.minutes >= 1 for slide in slides)


def test_a_site_without_solutions_gives_the_same_slides_and_a_changed_page_is_named():
    without_solutions = whole_book()["attention"].page.outside("solution")
    assert lecture("attention", without_solutions) == lecture("attention")
    with pytest.raises(ValueError, match=r"attention\.md:\d+"):
        lecture("attention", [])


def test_the_first_deck_begins_with_first_steps():
    assert [names[0] for _, names in make_slides.parts()][:2] == ["first_steps", "attention"]


def test_equation_1_and_its_drawing_and_the_numbers_of_a_prediction_stand_on_slides():
    slides = lecture("attention")
    [slide] = [slide for slide in slides if r"\tag{1}" in slide.text]
    assert "## The equation" in slide.text
    assert slide.notes
    [slide] = [slide for slide in slides if "## Predict: Keys that are one" in slide.text]
    assert "```python\nnum_keys = 5\n```" in slide.text, "and not what could be drawn"
    [slide] = [slide for slide in slides if "image/svg+xml" in slide.text]
    assert "## The equation" in slide.text
    assert 'alt="Scaled dot-product attention: Q holds the queries' in slide.text
    drawn = base64.b64decode(slide.text.split("base64,")[1].split('"')[0])
    assert drawn == (ROOT / "book/_static/drawings/attention.svg").read_bytes()
    assert "follows the three matrices" in slide.notes


def test_markdown_on_a_slide_and_what_stands_in_code_and_in_formulas():
    done = make_slides.MARKDOWN.render("A `$x$`, *so* $step\\_num$ and\n\n$$\na_b\n$$\n\n```python\nimport this\n```")
    assert done.startswith("<p>A <code>$x$</code>, <em>so</em> <span")
    assert done.count("<math") == 2
    assert '<span style="color: #008000; font-weight: bold">import</span>' in done


def test_a_deck_is_a_stack_for_each_chapter_and_each_slide_has_its_notes():
    slides = [make_slides.Slide("# Masks\n\n**Why?**", "Say *it*."), make_slides.Slide("two", "", minutes=5)]
    page = make_slides.deck("Q & A", [slides])
    assert "<title>Q &amp; A – The Executable Transformer</title>" in page
    assert "<li>Masks (7 minutes)</li>" in page
    assert page.count("<section>") == 2 + 3
    assert "<p>(2 minutes) Say <em>it</em>.</p>\n\n</aside>" in page
    assert page.index("(2 minutes)") < page.index("<p>two</p>") < page.index("(5 minutes)")


@pytest.mark.deep
def test_the_decks_open_from_files_whole_and_quietly(site: Path, context: BrowserContext, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workshop.site.make_slides", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    decks = sorted(tmp_path.glob("*.html"))
    assert len(decks) == len(make_slides.parts())
    for deck, (_, chapters) in zip(decks, make_slides.parts(), strict=True):
        page = context.new_page()
        faults = recorded(page, "file://")
        page.goto(deck.as_uri(), wait_until="load")
        page.wait_for_function("window.Reveal?.isReady()", timeout=30_000)
        count = page.evaluate("Reveal.getTotalSlides()")
        page.evaluate("Reveal.next()")
        here = page.evaluate("Reveal.getIndices()")
        boxes = page.evaluate("""['.slide-number', '.controls .navigate-down'].map((name) => {
            const box = document.querySelector(name).getBoundingClientRect();
            return [box.left, box.right, box.width];
        })""")
        found = axe_findings(page)
        page.close()
        assert faults == []
        assert found == []
        assert count >= 3 * len(chapters)
        assert here["h"] == 1
        (_, number, _), (arrows, _, width) = boxes
        assert number < arrows, "the number covers no arrow"
        assert width > 0
