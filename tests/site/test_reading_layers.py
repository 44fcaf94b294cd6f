"""The layers of a page: evidence is gathered and folded, code is a line on a phone, one switch and paper open all.

The tests in a browser need `make book` and Chromium, as conftest.py says.
"""

from typing import Any

import pytest
from browser import choose, opened, recorded
from doctrees import document
from docutils import nodes
from playwright.sync_api import Page

from workshop.site import book_layers

CLOSED = "details => details.filter(one => !one.open).length"
REFUSING = """for (const name of ['getItem', 'setItem']) {
  const own = Storage.prototype[name];
  Storage.prototype[name] = function (key, ...rest) {
    if (key === 'code-and-checks') throw new Error('refused');
    return own.call(this, key, ...rest);
  };
}"""
PROOF = "test_scores_are_those_of_nltk"
HEIGHT = "document.querySelector('article').getBoundingClientRect().height"


def section(title: str, *children: nodes.Node) -> nodes.section:
    return nodes.section("", nodes.title(title, title), *children, ids=[title.lower().replace(" ", "-")])


def words(text: str, *classes: str) -> nodes.Node:
    paragraph = nodes.paragraph(text, text)
    return nodes.container("", paragraph, classes=list(classes)) if classes else paragraph


def gathered(*sections: nodes.section) -> nodes.section:
    tree = document(section("Chapter", *sections))
    book_layers.gather_evidence(None, tree)  # type: ignore[arg-type]
    return tree[0]


def test_the_evidence_of_a_section_is_one_fold_at_its_end_in_its_order() -> None:
    inner = section("Inner", words("inner proof", "cell", "tag_evidence"), words("inner"))
    outer = section(
        "Outer", words("first", "evidence"), words("argument"), words("second", "cell", "tag_evidence"), inner
    )
    chapter = gathered(outer)
    [_, argument, fold, inner_again] = chapter[1].children
    assert argument.astext() == "argument"
    assert isinstance(fold, book_layers.fold)
    assert [part.astext() for part in fold] == ["first", "second"]
    assert inner_again is inner
    assert [part.astext() for part in inner[2]] == ["inner proof"]


def test_the_section_the_test_becomes_evidence_of_the_section_before_and_keeps_its_address() -> None:
    chapter = gathered(section("A run", words("it runs")), section("The test", words("it holds")), section("Exercises"))
    assert [part[0].astext() for part in chapter[1:]] == ["A run", "Exercises"]
    fold = chapter[1][-1]
    assert isinstance(fold, book_layers.fold)
    assert fold.astext() == "it holds"
    assert "the-test" in fold[0]["ids"]


def test_evidence_that_no_section_holds_itself_is_named(warnings: list[str]) -> None:
    gathered(section("A run", nodes.block_quote("", words("hidden", "evidence"))))
    assert ["how-we-know" in message for message in warnings] == [True]


def listing(source: str, caption: str) -> nodes.container:
    return nodes.container(
        "", nodes.caption(caption, caption), nodes.literal_block(source, source), classes=["literal-block-wrapper"]
    )


def test_a_listing_of_class_evidence_is_evidence() -> None:
    proof = listing("def count(x):\n    return x", "lib/count.py")
    next(proof.findall(nodes.literal_block))["classes"] += ["run", "evidence"]
    [_, argument, fold] = gathered(section("A run", proof, listing("x = 1", "lib/one.py")))[1].children
    assert argument.astext().startswith("lib/one.py")
    assert fold.children == [proof]


def code_cell(lines: int) -> nodes.container:
    source = "\n".join(f"a = {i}" for i in range(lines))
    return nodes.container("", nodes.container("", nodes.literal_block(source, source), classes=["cell_input"]))


def test_long_code_is_a_fold_that_names_what_it_holds_and_short_code_and_that_of_an_exercise_is_not() -> None:
    exercise = book_layers.exercise_node("", code_cell(9))
    hidden = book_layers.HideCodeCellNode("", code_cell(9))
    source = "class Mask:\n    def one(self):\n        x\n\n    y"
    codes = [code_cell(9), code_cell(2), exercise, hidden]
    tree = document(section("Chapter", listing(source, "lib/masks.py"), *codes))
    app: Any = type("App", (), {"builder": type("Builder", (), {"name": "html"})})
    book_layers.fold_code(app, tree, "")
    assert [one["words"] for one in tree.findall(book_layers.fold)] == ["Mask, in lib/masks.py", "Code, 9 lines: a"]
    assert [one.astext() for one in tree.findall(nodes.raw)] == [book_layers.SWITCH]


# ── In a browser ──────────────────────────────────────────────────────────────────────────────────────────────


def closed(page: Page, kind: str) -> tuple[int, int]:
    """How many folds of a kind are closed, and how many there are."""
    folds = page.locator(f".bd-article details.{kind}")
    return folds.evaluate_all(CLOSED), folds.count()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_evidence_is_folded_code_on_a_phone_too_and_the_switch_opens_all_and_is_remembered(
    page: Page, origins: dict[str, str], width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, origins["http"] + "book/parsing.html")
    evidence, code = closed(page, "evidence"), closed(page, "code")
    assert evidence[0] == evidence[1] >= 2
    assert code[1] >= 5
    assert code[0] == (code[1] if width < 480 else 0)
    assert not page.get_by_text(PROOF).is_visible()
    folded = page.evaluate(HEIGHT)
    page.get_by_label("Show code and checks").check()
    assert [closed(page, kind)[0] for kind in ("evidence", "code", "hide")] == [0, 0, 0]
    assert page.evaluate(HEIGHT) > folded
    page.goto(origins["http"] + "book/live.html")
    assert page.get_by_label("Show code and checks").is_checked()
    assert [closed(page, kind)[0] for kind in ("evidence", "code", "hide")] == [0, 0, 0]
    page.get_by_label("Show code and checks").uncheck()
    page.reload()
    assert not page.get_by_label("Show code and checks").is_checked()


@pytest.mark.slow
def test_where_the_browser_keeps_nothing_the_switch_works_on_the_page(page: Page, origins: dict[str, str]) -> None:
    faults = recorded(page, origins["http"])
    choose(page, "light")
    page.add_init_script(REFUSING)
    page.goto(origins["http"] + "book/parsing.html", wait_until="load")
    page.get_by_label("Show code and checks").check()
    assert closed(page, "evidence")[0] == 0
    assert faults == []


@pytest.mark.slow
def test_a_link_into_a_fold_opens_it(page: Page, origins: dict[str, str]) -> None:
    opened(page, origins["http"] + "book/parsing.html#the-test")
    assert page.locator("#the-test").is_visible()


@pytest.mark.slow
def test_paper_shows_argument_code_and_evidence(page: Page, origins: dict[str, str]) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    opened(page, origins["http"] + "book/parsing.html")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert closed(page, "evidence")[0] == closed(page, "code")[0] == 0
    assert page.get_by_text(PROOF).is_visible()
    assert not page.get_by_text("Show code and checks").is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert closed(page, "evidence")[0] == closed(page, "evidence")[1]


@pytest.mark.slow
def test_a_page_without_scripts_shows_them_too(silent: Page, origins: dict[str, str]) -> None:
    silent.goto(origins["http"] + "book/parsing.html")
    assert silent.get_by_text(PROOF).is_visible()
    assert silent.get_by_text("2 repairs:").is_visible()
    assert not silent.get_by_text("Show code and checks").is_visible()
