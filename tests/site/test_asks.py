"""Questions before a showing: whole in the sources, and answered on their pages with a remark on that very answer.

The tests of pages need what conftest.py says.
"""

import re
from pathlib import Path

import pytest
import yaml
from browser import ROOT, visited
from playwright.sync_api import BrowserContext

from workshop.site import book_asks
from workshop.site.choices import OTHER, choices_of, numbers_of, span, told
from workshop.site.plain_markdown import whole_book

Question = tuple[str, str, list[tuple[str, str, bool]], bool]


def questions(name: str) -> list[Question]:
    """Name, words and answers of each question of a page, and whether it asks for a number."""
    blocks = [block for block in whole_book()[name].page.blocks if block.name == "ask"]
    options = [block.options for block in blocks]
    return [
        (str(option["name"]), block.argument, choices_of(block.body), "number" in option)
        for block, option in zip(blocks, options, strict=True)
    ]


TOC = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
OF_PARTS_1_TO_3 = [Path(page["file"]).name for part in TOC["parts"][1:4] for page in part["chapters"]]
BOOK = {name: found for name in whole_book() if (found := questions(name))}


def test_every_question_remarks_on_every_answer() -> None:
    everywhere = [one for found in BOOK.values() for one in found]
    assert len(everywhere) >= 10
    assert len({name for name, *_ in everywhere}) == len(everywhere)
    for name, question, answers, is_number in everywhere:
        assert question.endswith("?"), name
        wrong = [remark for _, remark, is_right in answers if not is_right]  # one is right, with Yes: choices_of
        assert wrong, name
        assert all(len(remark) > 20 for _, remark, _ in answers), name
        assert not [remark for remark in wrong if not re.match(r"No\. (?!No\b|Yes\b)", remark)], name
        assert "Yes" not in "".join(told(answers)), name
        if is_number:
            assert numbers_of(answers)[0][2], name


def test_what_waits_for_an_answer_stands_below_its_question() -> None:
    waiting = 0
    for path in (ROOT / "book").glob("*.md"):
        text = path.read_text("utf-8")
        for found in re.finditer(r"^:before: (.*)$", text, re.MULTILINE):
            below = text[found.end() :].partition("\n## ")[0]
            assert f"\n:name: {found[1]}\n" in below or f"\n```{{{found[1]}}}\n" in below, found[0]
            waiting += 1
    assert waiting >= 6


@pytest.mark.parametrize("name", OF_PARTS_1_TO_3)
def test_a_chapter_asks_before_it_shows(name: str) -> None:
    text = (ROOT / "book" / f"{name}.md").read_text("utf-8")
    argument, _, exercises = text.partition("\n## Exercises\n")
    places = [found.start() / len(argument) for found in re.finditer(r"^`{3,}\{ask\}", argument, re.MULTILINE)]
    assert 2 <= len(places) <= 4
    assert min(places) < 0.5
    assert "{ask}" not in exercises


def test_a_question_has_a_form_and_a_fold_and_one_for_a_number_shows_no_answer_before() -> None:
    text = book_asks.ask_html("one", "Which?", [("this", "Not this one.", False), ("that", "Yes, that.", True)])
    assert text.count('type="radio"') == 2
    assert "<legend>Which?</legend>" in text
    assert "<summary>Which? <i>(this, that)</i></summary>\n<p><b>that</b>, that.</p>" in text
    assert "data-before" not in text
    answers = [("0.5", "Half of it is there.", False), ("2", "Yes, two.", True), (OTHER, "Count again.", False)]
    text = book_asks.ask_html("one", "How many?", answers, number=True)
    assert text.count('type="text"') == 1
    assert "<legend>How many?</legend>" in text
    assert "<summary>How many?</summary>" in text


@pytest.mark.parametrize(
    ("number", "expected"), [("0.67", [0.665, 0.675]), ("-1.5", [-1.55, -1.45]), ("64", [64, 64]), (OTHER, None)]
)
def test_a_line_answers_what_rounds_to_its_digits(number: str, expected: list[float] | None) -> None:
    assert span(number) == (expected and pytest.approx(expected))


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (["- [x] this | Yes.", "that"], "each line"),
        (["- [ ] this | It."], "exactly one"),
        (["- [x] this | Yes.", "- [x] that | Yes."], "exactly one"),
        ([], "exactly one"),
        (["- [x] this | It is."], "Yes"),
    ],
)
def test_a_question_that_cannot_be_judged_is_refused(lines: list[str], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        choices_of(lines)


@pytest.mark.parametrize(
    ("answers", "word"), [([("2", "Yes.", True)], "last line"), ([("two", "", True), (OTHER, "", False)], "no number")]
)
def test_a_number_that_cannot_be_judged_is_refused(answers: list[tuple[str, str, bool]], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        numbers_of(answers)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "twenty_minutes" else pytest.mark.deep) for name in BOOK]
)
def test_each_answer_gets_its_remark_at_once(context: BrowserContext, origins: dict[str, str], name: str) -> None:
    with visited(context, origins["http"], name) as page:
        assert page.locator("form.answer.ask:visible").count() == len(BOOK[name])
        for label, _, answers, is_number in BOOK[name]:
            form = page.locator(f"form.answer[data-question={label}]")
            form.get_by_role("button", name="Show the answer").click()
            assert form.get_by_role("status").inner_text() == f"The answer: {''.join(told(answers))}"
            for answer, remark, is_right in answers:
                if is_number:
                    form.get_by_role("textbox").fill("123456" if answer == OTHER else answer)
                    form.get_by_role("textbox").press("Enter")
                else:
                    form.get_by_text(answer, exact=True).click()
                assert form.get_by_role("status").inner_text() == remark, (label, answer)
                assert form.locator(".answer-remark.right").count() == is_right
                assert form.get_by_role("button", name="Show the answer").is_visible() != is_right
