"""What a page judges without Python is what the chapter's check says: every prediction of the book, and small ones."""

import math
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from playwright.sync_api import Page as BrowserPage

from workshop.course.exercises import Exercise, WrongAnswer, exercises_of
from workshop.course.page_answers import (
    ALL,
    NOT_ALL,
    Answer,
    Check,
    Leaf,
    Range,
    Rule,
    alike,
    checks_of,
    is_asked,
    kind_of,
    rules_of,
)
from workshop.site.book_answers import form_html
from workshop.site.book_index import Page, pages_in_order, read_page
from workshop.site.plain_markdown import whole_book

ROOT = Path(__file__).resolve().parents[2]
PAGES = [read_page(path) for path in pages_in_order(ROOT)]
ASKING = [page for page in PAGES if any(map(is_asked, exercises_of(page)))]


def within(leaf: Leaf, one: Range) -> bool:
    if not isinstance(one, tuple) or isinstance(leaf, str):
        return one in (None, leaf)
    room = 1e-9 * max(1.0, abs(leaf))
    return (one[0] is None or leaf >= one[0] - room) and (one[1] is None or leaf <= one[1] + room)


def judged(rules: list[Rule], answer: Answer) -> tuple[str, bool] | None:
    """What the page says: the words of the first rule whose box holds an answer."""
    return next(((words, right) for box, words, right in rules if all(map(within, answer, box))), None)


# ── A check that is made up ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def made() -> Callable[..., Check]:
    def make(body: str, solution: str, *wrong: str, hidden: str = "pass", choices: tuple[str, ...] = ()) -> Check:
        exercise = Exercise("ex-made", "", 1, "predict", "easy", 1, 2, "", ["x"], list(choices))
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        exercise.cells = {
            "check": f"def check_x(x):\n{lines}\n\n\nprint(check_x(x))",
            "solution": f"x = {solution}",
            "hidden-check": hidden,
        }
        exercise.wrong_answers = [WrongAnswer(f"x = {one}", 2, 1) for one in wrong]
        return Check(exercise, {})

    return make


TOLERANT = """if abs(x - 2.5) < 0.01:
    return "Right."
if abs(x - 5) < 0.1:
    return "Twice as much."
return f"Not {x:g}." """


def test_a_rule_reaches_as_far_as_the_tolerance_of_the_check(made: Callable[..., Check]) -> None:
    rules = rules_of(made(TOLERANT, "2.5"))
    assert [judged(rules, (x,)) for x in (2.5, 2.5099, 2.4901)] == [("Right.", True)] * 3
    assert [judged(rules, (x,)) for x in (2.5101, 2.4899)] == [None, None]


def test_a_typical_mistake_is_named_though_it_is_rounded(made: Callable[..., Check]) -> None:
    rules = rules_of(made(TOLERANT, "2.5", "5", "7.123"))
    assert judged(rules, (5.005,)) == ("Twice as much.", False)
    assert judged(rules, (7.12,)) == ("Not 7.123.", False)


def test_an_answer_that_only_the_visible_check_passes_is_not_right(made: Callable[..., Check]) -> None:
    body = 'return "Right for the first." if x[0] == 1 else "No."'
    rules = rules_of(made(body, "(1, 2)", "(1, 3)", hidden="assert x[1] == 2"))
    assert judged(rules, (1, 3)) == (f"Right for the first. {NOT_ALL}", False)
    assert judged(rules, (7, 2)) is None


@pytest.mark.parametrize(
    ("praise", "said"),
    [
        ("Right for the first.", ALL),
        ("Right for 1.", ALL),
        ("Right for a = 1: the half.", f"{ALL} For a = 1: the half."),
        ("Right: the half. Indeed.", f"{ALL} The half. Indeed."),
        ("Right.", ALL),
    ],
)
def test_a_wholly_right_answer_is_not_praised_for_a_part(made: Callable[..., Check], praise: str, said: str) -> None:
    body = f'return "{praise}" if x[0] == 1 else "No."'
    assert judged(rules_of(made(body, "(1, 2)", hidden="assert x[1] == 2")), (1, 2)) == (said, True)
    both = f'return "{praise}" if x == (1, 2) else "No."'
    assert judged(rules_of(made(both, "(1, 2)")), (1, 2)) == (praise, True)


def test_every_choice_has_its_remark(made: Callable[..., Check]) -> None:
    rules = rules_of(made('return "Right." if x == "b" else f"{x}? No."', '"b"', '"a"', choices=("a", "b", "c")))
    assert [judged(rules, (one,)) for one in "abc"] == [("a? No.", False), ("Right.", True), ("c? No.", False)]


def test_a_check_of_more_than_one_name_is_refused(made: Callable[..., Check]) -> None:
    exercise = Exercise("ex-made", "", 1, "predict", "easy", 1, 2, "", ["x"])
    exercise.cells = {"check": "def check_x(x, y):\n    return 1\nprint(check_x(x, 2))", "hidden-check": ""}
    with pytest.raises(ValueError, match="check_x"):
        Check(exercise, {})


# ── The predictions of the book ───────────────────────────────────────────────────────────────────────────────


def tried(generator: random.Random, check: Check, rules: list[Rule]) -> Answer:
    """An answer near what somebody may write: values of rules, of the solution, round ones, and mixtures of them."""
    if check.choices:
        return tuple(generator.choice(rules)[0])

    def value(place: int) -> Leaf:
        if isinstance(check.solution[place], str):
            return generator.choice([*(one[place] for one in (check.solution, *check.wrong)), "anything"])
        known = float(generator.choice([one[place] for one in (check.solution, *check.wrong)]))
        size = round(10 ** generator.uniform(-2, 7), generator.choice([0, 1, 3]))
        found = generator.choice([known, float(check.solution[place]), size, -size, known + 1, known * 2])
        return round(found) if check.is_whole else found

    return tuple(value(place) for place in range(len(check.solution)))


@pytest.mark.slow
@pytest.mark.parametrize("page", ASKING, ids=lambda page: page.name)
def test_a_page_says_what_the_check_says(page: Page) -> None:
    for exercise, check in checks_of(page, whole_book()[page.name]):
        expected = 1 if check.choices else len(check.solution)
        assert len(exercise.fields) == expected, f"{exercise.label}: {exercise.fields}"
        rules = rules_of(check)
        assert judged(rules, check.solution) == check.say(check.solution)
        assert check.say(check.solution)[1], f"{exercise.label} does not accept its solution"
        if kind_of(check) == "number":  # the note beside the field says that three digits are enough
            rounded = tuple(float(f"{leaf:.3g}") for leaf in check.solution)
            assert check.say(rounded)[1], f"{exercise.label}: {rounded}"
        for wrong in check.wrong:
            assert judged(rules, wrong) == (check.say(wrong)[0], False), f"{exercise.label}: {wrong}"
        generator = random.Random(1)
        for _ in range(60):
            answer = tried(generator, check, rules)
            found, said = judged(rules, answer), check.say(answer)
            assert found is None or alike(found, said), f"{exercise.label}: {answer}"
            assert (found is not None and found[1]) == said[1], f"{exercise.label}: {answer}"


def test_every_prediction_that_a_machine_checks_is_asked_on_its_page() -> None:
    found = [exercise for page in PAGES for exercise in exercises_of(page) if exercise.kind == "predict"]
    assert len(found) >= 26
    assert [exercise.label for exercise in found if not is_asked(exercise)] == []
    assert [exercise.label for exercise in found if not exercise.fields] == []


# ── What a reader types ───────────────────────────────────────────────────────────────────────────────────────

TYPED = {
    0.5: "0.5 0,5 .5 ½ 1/2 1÷2 1⁄2 1∕2 ０．５ ０，５ 50% 50\u202f% ５０％ ٠٫٥ 2^-1 2⁻¹ √¼ sqrt(1/4)",
    -2.5: "-2.5 −2,5 –2½ －２．５ -250% ‑2.5 2*-1.25",
    12: "12 １２ १२ 3×4 3x4 3·4 3∙4 ３＊４ 24÷2 2³+4 2\u200b4/2 \u200e12 （3＋1）²−4",
    12_000: "12000 12,000 12\u202f000 12'000 12’000 12\u2009000 1.2e4 １２，０００",
    50: "50 50% 50\u00a0% ５０％",
}
# What a space or a word stands in.
WITH_SPACES = {
    7 / 3: ("2 1/3", "2 1 / 3", "2⅓", "2 ⅓", "２ １／３", "7/3", "= 2 1/3", "1 + 1 1/3"),
    -7 / 3: ("-2 1/3", "−2 ⅓"),
    2 / 3: ("2/3", "= 2/3", "2 / 3 of the peak"),
    math.log(40): ("log 40", "math.log(40)", "np.log(40) nats", "ln(40) = log 40", "log2(40) * ln 2"),
    1.5: ("1,5", "1.5 nats", "≈ 1.5", "~1.5", "x = 1.5", "3/2 = 1.5.", "1,5 Wörter", "1.5.", "1.5 kg"),
    1234.5: ("1.234,5", "1,234.5", "1 234,5"),
    1e-3: ("1e-3", "1E−3", "10^-3", "1 × 10⁻³", "0.1 percent", "exp(-ln(1000))"),
    16_000: ("16 000", "16k steps", "16 thousand", "16,000 steps", "16.000", "step 1 = 16000"),
    12: ("12 entries", "= 12", "3 * 4 = 12", "12個"),
    1_234_567: ("1 234 567", "1.234.567", "1,234,567", "1'234'567 parameters"),
    35.84e6: ("35.84 million", "35.84M", "35,84 million parameters", "35 840 000"),
}
NOT_READ = ("1,2,3", "alert(1)", "2 *", "½½", "か１２", "3 4", "2 3 1/4", "2π", "2 pi", "5 MB", "5 ms", "12 34", "nats")


# That a key sends a form, test_answers.py tries; a key for each text would take a minute.
SENT = """texts => texts.map(text => {
  document.querySelector('input').value = text;
  document.querySelector('form').requestSubmit();
  return document.querySelector('[role=status]').textContent;
})"""


@pytest.fixture(scope="module")
def blank(browser: Browser) -> BrowserPage:
    return browser.new_page()


def remarks(blank: BrowserPage, kind: str, rules: list[Any], texts: Iterable[str], field: str = "x") -> list[str]:
    """What a form says of each text in its one field."""
    blank.set_content(form_html("q", {"fields": [field], "choices": [], "kind": kind, "rules": rules}))
    blank.add_script_tag(path=ROOT / "book" / "_static" / "book-answers.js")
    return blank.evaluate(SENT, [*texts])


@pytest.mark.parametrize("kind", ["number", "whole"])
def test_a_number_is_read_as_phones_and_input_methods_write_it(blank: BrowserPage, kind: str) -> None:
    without_spaces = ((value, re.split(" (?! )", texts)) for value, texts in TYPED.items())
    for value, texts in (*without_spaces, *WITH_SPACES.items()):
        if kind == "number" or value == int(value):
            said = remarks(blank, kind, [[[[value, value]], "Right", 1]], texts)
            assert [text for text, one in zip(texts, said, strict=True) if one != "Right"] == []
    said = remarks(blank, kind, [[[[2, 2]], "Right", 1]], NOT_READ)
    assert [text for text, one in zip(NOT_READ, said, strict=True) if "not read" not in one] == []


def test_a_unit_is_read_where_the_question_names_it(blank: BrowserPage) -> None:
    rules = [[[[5, 5]], "Right", 1]]
    assert remarks(blank, "number", rules, ["5 MB", "5 mb", "5"], "MB with two processes") == ["Right"] * 3
    assert all("not read" in said for said in remarks(blank, "number", rules, ["5 GB", "5 bits"], "MB of each"))


def test_a_number_that_is_rounded_too_far_is_told_so(blank: BrowserPage) -> None:
    rules = [[[[3.68, 3.695]], "Right", 1], [[[5.3, 5.4]], "Bits", 0]]
    rounded, wrong = "Give more decimals", "Not yet"
    texts = {"3.69": "Right", "3,7": rounded, "= 3.7 nats": rounded, "4": wrong, "3.8": wrong, "0.4": wrong}
    for text, said in zip(texts, remarks(blank, "number", rules, texts), strict=True):
        assert texts[text] in said, text
    assert "Bits" in remarks(blank, "number", rules, ["5.3"])
    assert wrong in remarks(blank, "number", [[[[3.66, 3.68]], "Right", 1]], ["3.6"])[0]


def test_swapped_answers_and_a_wrong_sign_are_named(blank: BrowserPage) -> None:
    negative = [[[[3, 3]], "Right", 1], [[[-4, -4]], "Twice", 0]]
    assert remarks(blank, "number", negative, ["-3", "-4"]) == ["Right but for the sign.", "Twice"]
    content = {"fields": ["x", "y"], "choices": [], "kind": "number", "rules": [[[[1, 1], [2, 2]], "Right", 1]]}
    blank.set_content(form_html("q", content))
    blank.add_script_tag(path=ROOT / "book" / "_static" / "book-answers.js")
    for field, text in zip(blank.get_by_role("textbox").all(), "21", strict=True):
        field.fill(text)
    blank.keyboard.press("Enter")
    assert blank.get_by_role("status").inner_text() == "The right numbers, in the wrong fields."


def test_a_word_is_read_as_phones_and_input_methods_write_it(blank: BrowserPage) -> None:
    texts = ["ab→c", "AB -> c", "ａｂ－＞ｃ", "ab –> c", "ab ⇒ c", "▁ab\u200b→<c>"]
    assert remarks(blank, "word", [[["ab→c"], "Right", 1]], texts) == ["Right"] * len(texts)
