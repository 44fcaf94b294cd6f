"""Predictions answered on their pages: judged as the chapter's check judges them, kept on the device, sent nowhere.

Needs what conftest.py says.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import ROOT, alone, axe_findings, recorded, thinned, turned, visited
from playwright.sync_api import BrowserContext, Locator, Page

from workshop.course.exercises import exercises_of
from workshop.course.page_answers import Answer, Check, checks_of, is_asked
from workshop.site.book_index import pages_in_order, read_page
from workshop.site.plain_markdown import whole_book

pytestmark = pytest.mark.slow

PAGES = [read_page(path) for path in pages_in_order(ROOT)]
ASKING = {page.name: page for page in PAGES if any(map(is_asked, exercises_of(page)))}
# Pages of each kind: a whole number, a fraction, several fields, words, boxes and a choice; the others are like these.
OF_EACH_KIND = {"masks", "first_steps", "layers", "attention_maps", "your_own_corpus", "common_mistakes"}
FORM = "form.answer[data-question={}]"
PARSING = FORM.format("ex-parsing-predict")
NO_STORAGE = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('no storage'); }})"


# One page for many cases: its form takes any number of answers.
@pytest.fixture(scope="module")
def parsing(context: BrowserContext, origins: dict[str, str]) -> Iterator[Page]:
    with visited(context, origins["http"], "parsing") as page:
        yield page


def checks(name: str) -> list[tuple[str, Check]]:
    return [(exercise.label, check) for exercise, check in checks_of(ASKING[name], whole_book()[name])]


def remark(form: Locator, answer: Answer, choices: list[str]) -> str:
    """What the page says when a reader fills in an answer and presses Enter."""
    if choices:
        for choice in choices:
            field = form.get_by_label(choice, exact=True)
            chosen = choice in (str(answer[0]).split(" ") if len(choice) == 1 else answer)
            if field.get_attribute("type") == "checkbox":
                field.set_checked(chosen)
            elif chosen:
                field.check()
        for button in form.get_by_role("button", name="Check").all():  # several: one choice is judged by its press
            button.press("Enter")
    else:
        fields = form.get_by_role("textbox").all()
        assert len(fields) == len(answer)
        for field, leaf in zip(fields, answer, strict=True):
            field.fill(str(leaf))
        fields[-1].press("Enter")
    return form.get_by_role("status").inner_text()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in OF_EACH_KIND else pytest.mark.deep) for name in ASKING]
)
def test_a_question_accepts_its_solution_and_names_its_typical_mistakes(
    context: BrowserContext, origins: dict[str, str], name: str
) -> None:
    questions = checks(name)
    with visited(context, origins["http"], name) as page:
        assert page.locator("form.answer:not(.ask):visible").count() == len(questions)
        alone(page, "form.answer")
        for label, check in questions:
            form = page.locator(FORM.format(label))
            for answer in (*check.wrong, check.solution):
                assert remark(form, answer, check.choices) == check.say(answer)[0], (label, answer)
            assert form.locator(".answer-remark.right").count() == 1
        count = f"Answered on this page: {len(questions)} of {len(questions)}."
        assert page.locator("form.answer:not(.ask) .answer-count").first.inner_text().startswith(count)


@pytest.mark.parametrize("kind", ["http", pytest.param("file", marks=pytest.mark.deep)])
def test_answers_stay_on_the_device_and_can_be_saved_and_cleared(
    page: Page, origins: dict[str, str], kind: str, tmp_path: Path
) -> None:
    faults = recorded(page, origins[kind])
    page.goto(f"{origins[kind]}book/glossary.html")
    page.evaluate("localStorage.removeItem('book-answers')")
    page.goto(f"{origins[kind]}book/parsing.html", wait_until="load")
    assert remark(page.locator(PARSING), (24,), []).startswith("Right")
    page.reload(wait_until="load")
    assert page.locator(PARSING).get_by_role("textbox").input_value() == "24"
    page.locator(PARSING).get_by_role("link", name="All chapters").click()
    page.wait_for_url("**/index.html#answers")
    box = page.locator("details.answers")
    total = sum(is_asked(exercise) for one in ASKING.values() for exercise in exercises_of(one))
    assert box.locator("summary").inner_text() == f"Questions answered: 1 of {total}"
    assert box.locator("li", has_text="Parsing").inner_text().endswith(": 1 of 1")
    with page.expect_download() as download:
        box.get_by_role("button", name="Save as a file").click()
    download.value.save_as(tmp_path / "answers.json")
    saved = json.loads((tmp_path / "answers.json").read_text("utf-8"))
    assert saved["answers"] == {"ex-parsing-predict": {"answer": ["24"], "right": True}}
    page.once("dialog", lambda dialog: dialog.accept())
    box.get_by_role("button", name="Clear").click()
    assert box.locator("summary").inner_text() == f"Questions answered: 0 of {total}"
    assert page.evaluate("localStorage.getItem('book-answers')") == "{}"
    assert [fault for fault in faults if "ERR_ABORTED" not in fault] == []


def test_a_browser_that_keeps_nothing_still_judges_and_says_so(page: Page, origins: dict[str, str]) -> None:
    page.add_init_script(NO_STORAGE)
    page.goto(f"{origins['http']}book/parsing.html", wait_until="load")
    assert remark(page.locator(PARSING), (24,), []).startswith("Right")
    assert "This browser does not keep them" in page.locator("form.answer:not(.ask) .answer-count").first.inner_text()


def test_what_is_no_number_is_not_read(parsing: Page) -> None:
    not_read = "“{}” is not read as a whole number."
    said = {written: not_read.format(written) for written in ("12.5", "1,2,3", "alert(1)", "2 *")}
    for written, begins in (said | {"": "There is no answer yet.", "12,000": "Not yet."}).items():
        assert remark(parsing.locator(PARSING), (written,), []).startswith(begins)
        invalid = parsing.locator(PARSING).get_by_role("textbox").get_attribute("aria-invalid")
        assert invalid == ("false" if begins == "Not yet." else "true")


def test_a_form_is_filled_in_and_sent_with_keys_alone(page: Page, origins: dict[str, str]) -> None:
    page.goto(f"{origins['http']}book/common_mistakes.html", wait_until="load")
    form = page.locator(FORM.format("ex-mistakes-predict"))
    form.locator("input").first.focus()
    for moving, answering, said in (("ArrowDown", "Space", "Right"), ("ArrowUp", "Enter", "No:")):
        page.keyboard.press(moving)
        assert form.get_by_role("status").inner_text() == ""
        page.keyboard.press(answering)
        assert form.get_by_role("status").inner_text().startswith(said)
    assert form.get_by_role("button").count() == 0


@pytest.mark.parametrize(("theme", "width"), [("light", 390), pytest.param("dark", 1280, marks=pytest.mark.deep)])
def test_axe_finds_nothing_in_an_answered_form(parsing: Page, theme: str, width: int) -> None:
    thinned(parsing, "form.answer")
    turned(parsing, theme, width)
    for answer in ("", "12", "24"):
        assert remark(parsing.locator(PARSING), (answer,), [])
        assert axe_findings(parsing, PARSING) == []
    assert parsing.evaluate("document.documentElement.scrollWidth") <= width


def test_on_paper_the_question_stands_alone(parsing: Page) -> None:
    parsing.evaluate("dispatchEvent(new Event('beforeprint'))")
    parsing.emulate_media(media="print")
    assert parsing.locator("form.answer:visible").count() == 0
    assert parsing.locator("#ex-parsing-predict").is_visible()
    assert parsing.locator(".hint:visible").count() > 0
    assert parsing.locator(".solution:visible").count() == 0
    parsing.emulate_media(media="screen")


def test_the_answer_does_not_stand_in_plain_sight_and_the_script_is_small(site: Path) -> None:
    text = (site / "book" / "embeddings.html").read_text("utf-8")
    form = text[text.index('<form class="answer"') : text.index("</form>", text.index('<form class="answer"'))]
    assert "35840000" not in form
    assert "Right:" not in form
    assert len(form) < 4_000
    assert (site / "_static" / "book-answers.js").stat().st_size < 12_000
    for name in ("glossary", "notation"):
        silent = (site / "book" / f"{name}.html").read_text("utf-8")
        assert "book-answers" not in silent, "the script loads where nothing is asked"
