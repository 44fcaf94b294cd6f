"""The first screen and the twenty minutes in a browser: what stands there at once, what a press, a key, a number does.

Needs `make book` and Chromium, as conftest.py says.
"""

import gzip
import json
import re
from collections.abc import Iterator

import pytest
from browser import SITE, at_rest, axe_findings, opened, recorded, turned, visited
from playwright.sync_api import BrowserContext, Page, Route, ViewportSize
from test_live_places import LIVE, TRAINING, megabytes

from workshop.site import record_hundred

pytestmark = pytest.mark.slow

SCREENS: list[ViewportSize] = [{"width": 1280, "height": 800}, {"width": 390, "height": 844}]
OUTSIDE = """() => {
  const card = document.querySelector('.first-numbers');
  const edge = card.getBoundingClientRect().right;
  const found = [];
  const kept = card.querySelector('[name=first-head]:checked');
  for (const head of card.querySelectorAll('[name=first-head]')) {
    head.click();
    for (let number = 0; number < 100; number += 1) {
      card.querySelector('#first-text').value = number;
      card.querySelector('form').requestSubmit();
      dispatchEvent(new Event('beforeprint')); // all words at once
      const words = [...card.querySelectorAll('.first-looks :is(b, button, li)')];
      if (words.some((word) => word.getBoundingClientRect().right > edge || word.scrollWidth > word.clientWidth + 1)) {
        found.push(number);
      }
    }
  }
  kept.click();
  return found;
}"""
FIELD, GERMAN, LINES = "#first-text", ".first-written", ".first-lines"
# Whether a part lies on the first screen, whole.
ON_SCREEN = """selector => {
  const { top, bottom, left, right } = document.querySelector(selector).getBoundingClientRect();
  return top >= 0 && left >= 0 && bottom <= innerHeight && right <= innerWidth && bottom > top;
}"""
WRITTEN = "text => document.querySelector('.first-written').textContent === text"
BAR_AFTER_CLICK = """button => {
  button.click();
  return document.querySelector('.first-numbers .live-loading').checkVisibility();
}"""
READ = "text => { try { return LiveTranslator.readNumber(text); } catch (error) { return error.message; } }"
MOST = 400_000  # bytes on the wire, before anything is typed


@pytest.fixture(scope="module")
def front(context: BrowserContext, origins: dict[str, str]) -> Iterator[Page]:
    with visited(context, origins["http"], "index") as page:
        yield page


@pytest.fixture(scope="module")
def twenty(context: BrowserContext, origins: dict[str, str]) -> Iterator[Page]:
    with visited(context, origins["http"], "twenty_minutes") as page:
        yield page


def unveiled(page: Page) -> None:
    """Show what waits for an answer."""
    for button in reversed(page.locator(".ask-veil button").all()):
        button.click()


def says(page: Page, text: str) -> None:
    page.wait_for_function(WRITTEN, arg=text)


def typed(page: Page, text: str) -> None:
    page.fill(FIELD, text)
    page.press(FIELD, "Enter")


def fetched(page: Page) -> None:
    """Press for the model that computes four hundred and forty-seven."""
    assert page.eval_on_selector(".first-fetch", BAR_AFTER_CLICK)
    says(page, "vier hundert sieben und vierzig")
    assert page.locator(".first-rows li").count() == 6


def test_the_first_screen_has_field_german_and_lines_and_is_light(page: Page, origins: dict[str, str]) -> None:
    files: set[str] = set()
    page.on("request", lambda request: files.add(request.url.removeprefix(origins["http"]).split("?")[0]))
    opened(page, origins["http"] + "book/index.html")
    page.evaluate("document.fonts.ready.then(() => null)")
    contents = [(SITE / file).read_bytes() for file in files if not file.startswith(("data:", "blob:"))]
    assert 50_000 < sum(min(len(content), len(gzip.compress(content))) for content in contents) <= MOST
    says(page, "sieben und vierzig")
    for size in SCREENS:
        page.set_viewport_size(size)
        at_rest(page)  # the list of pages moves
        for part in (FIELD, GERMAN, LINES, ".first-rows", ".first-steps"):
            assert page.evaluate(ON_SCREEN, part), part
    assert page.locator(f"{LINES} line").count() >= 4
    assert page.get_attribute(FIELD, "autocapitalize") == "off"


def test_without_scripts_the_same_is_a_picture(silent: Page, origins: dict[str, str]) -> None:
    silent.goto(origins["http"] + "book/index.html", wait_until="load")
    assert silent.inner_text(GERMAN) == "sieben und vierzig"
    for size in SCREENS:
        silent.set_viewport_size(size)
        for part in (GERMAN, LINES, ".first-rows"):
            assert silent.evaluate(ON_SCREEN, part), part
    assert silent.locator(f"{LINES} line").count() >= 4
    assert silent.is_hidden(FIELD)


@pytest.mark.parametrize(("size", "early"), [(SCREENS[0], "82"), (SCREENS[1], "eighty-t")])
def test_on_a_slow_line_the_picture_stands_and_what_is_typed_is_answered_when_the_scripts_have_come(
    page: Page, origins: dict[str, str], size: ViewportSize, early: str
) -> None:
    page.set_viewport_size(size)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile(r"/_static/(live/|book)[^/]*\.js"), hold)
    page.goto(origins["http"] + "book/index.html", wait_until="commit")
    page.locator(GERMAN, has_text="sieben und vierzig").wait_for()
    for part in (GERMAN, LINES, ".first-rows"):
        assert page.evaluate(ON_SCREEN, part), part
    assert any("first_numbers" in route.request.url for route in held)
    typed(page, early)
    for route in held:
        route.continue_()
    if early != "82":  # half a word is no fault
        page.wait_for_function("!document.querySelector('.first-steps').hidden")
        typed(page, "82")
    says(page, "zwei und achtzig")
    assert "?" not in page.url, "the form was not sent to a server"


def test_it_plays_once_unless_motion_is_unwanted(context: BrowserContext, origins: dict[str, str], front: Page) -> None:
    with visited(context, origins["http"], "index", slowly=True) as slow:
        for page in (slow, front):
            page.evaluate(
                """() => {
                  globalThis.seen = [];
                  const output = document.querySelector('.first-written');
                  new MutationObserver(() => seen.push(output.textContent)).observe(output, { childList: true });
                  document.querySelector('.first-again').click();
                }"""
            )
            says(page, "sieben und vierzig")
            seen = page.evaluate("seen")
            assert ("sieben …" in seen) == (page is slow)
            page.wait_for_timeout(1500)
            assert page.inner_text(GERMAN) == "sieben und vierzig", "it comes to rest"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("47", 47), ("forty-seven", 47), ("Forty-Seven.", 47), ("FORTY SEVEN!", 47), ("fortyseven", 47),
        (" forty  seven ", 47), ("“forty–seven”", 47), ("zero", 0), ("0", 0), ("one", 1), ("Sixteen", 16),
        ("one hundred and five", 105), ("a hundred", 100), ("12,345", 12_345), ("12 345", 12_345), ("999999", 999_999),
    ],
)  # fmt: skip
def test_however_a_number_is_typed_it_is_read(front: Page, text: str, number: int) -> None:
    assert front.evaluate(READ, text) == number


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no number yet"), ("hello", "Try forty-seven"), ("fourty", "Did you mean forty?"),
        ("seven forty", "Did you mean forty seven?"), ("twelve hundred", "one thousand two hundred"),
        ("seventeen eighty-nine", "mean one thousand seven hundred eighty nine?"), ("twenty ten", "two thousand ten?"),
        ("-5", "below zero"), ("4.7", "one whole number"), ("1000000", "0 to 999,999"), ("two million", "0 to 999,999"),
    ],
)  # fmt: skip
def test_what_is_no_number_is_refused_with_a_sentence(front: Page, text: str, word: str) -> None:
    assert word in front.evaluate(READ, text)


def test_every_recorded_number_answers_at_once(front: Page) -> None:
    for english, german, _ in json.loads(record_hundred.PATH.read_text("utf-8"))["numbers"][::9]:
        typed(front, english.title())
        says(front, german)
        assert front.inner_text("#first-problem") == ""
    files = front.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [file for file in files if "onnx" in file] == []


def test_no_number_leaves_its_card_on_a_phone(front: Page) -> None:
    for width in (320, 390):
        front.set_viewport_size({"width": width, "height": 844})
        assert front.evaluate(OUTSIDE) == []
    front.set_viewport_size({"width": 1280, "height": 900})


def test_a_number_is_answered_while_it_is_typed_and_a_half_word_is_no_fault(front: Page) -> None:
    front.fill(FIELD, "eighty th")
    front.wait_for_timeout(600)
    assert front.inner_text("#first-problem") == ""
    front.fill(FIELD, "eighty three")
    says(front, "drei und achtzig")
    typed(front, "hello")
    assert "no English number word" in front.inner_text("#first-problem")
    says(front, "…")
    typed(front, "47")
    says(front, "sieben und vierzig")


def test_it_steps_back_and_forth_by_keyboard(front: Page) -> None:
    typed(front, "47")
    says(front, "sieben und vierzig")
    front.focus(".first-back")
    for _ in range(5):
        front.keyboard.press("Enter")
    assert front.evaluate("document.activeElement.className") == "first-step", "the focus is not lost"
    assert front.inner_text(GERMAN) == "…"
    assert front.is_disabled(".first-back")
    for text in ("sieben …", "sieben und …", "sieben und vierzig …", "sieben und vierzig"):
        front.focus(".first-step")
        front.keyboard.press("Enter")
        says(front, text)
    assert front.get_attribute(GERMAN, "aria-live") == "polite"
    front.focus(".first-rows li:first-child button")
    front.keyboard.press("Enter")
    assert front.get_attribute(".first-rows li:first-child button", "aria-pressed") == "true"
    assert "seven 100\u00a0%" in front.inner_text(".first-rows li:first-child")


@pytest.mark.parametrize(("is_touched", "focused"), [(True, "submit"), (False, "text")])
def test_a_larger_number_is_computed_and_no_keyboard_rises_over_the_answer_even_if_the_model_comes_late(
    context: BrowserContext, page: Page, origins: dict[str, str], is_touched: bool, focused: str
) -> None:
    faults = recorded(page, origins["http"])
    page.set_viewport_size({"width": 390, "height": 844})
    context.new_cdp_session(page).send("Emulation.setTouchEmulationEnabled", {"enabled": is_touched})
    opened(page, origins["http"] + "book/index.html")
    share = page.locator(".first-rows li:first-child .first-share")
    assert share.text_content() == "looks at seven 100\u00a0%"
    clipped = "all => all.map(one => getComputedStyle(one).clipPath !== 'none')"
    assert share.locator("> *").evaluate_all(clipped) == [False, False, True]
    page.fill(FIELD, "hello")
    page.click("[type=submit]")
    assert "no English number word" in page.inner_text("#first-problem")
    assert page.evaluate("document.activeElement.type") == focused
    assert page.locator("#first-numbers").bounding_box()["height"] < 200, "nothing empty below"  # type: ignore[index]
    page.route("**/number_words_en_de.js*", lambda route: route.abort())
    typed(page, "four hundred and forty-seven")
    assert f"load {megabytes(*LIVE.files)}" in page.inner_text(".first-fetch")
    assert page.inner_text(GERMAN) == "…", "the answer to another number must not stand there"
    page.click(".first-fetch")
    page.wait_for_selector("#first-problem:text('did not arrive whole')")
    assert faults != []
    assert all("number_words_en_de.js" in fault or "ERR_FAILED" in fault for fault in faults)
    faults.clear()
    page.unroute("**/number_words_en_de.js*")
    fetched(page)
    page.wait_for_function("type => document.activeElement.type === type", arg=focused)
    assert page.is_visible(".first-larger")
    assert megabytes(TRAINING.files[0]) in page.inner_text(TRAINING.button), "the runtime is there"
    typed(page, "100")
    says(page, "ein hundert")
    assert faults == []


def test_paper_shows_the_last_state(front: Page, twenty: Page) -> None:
    typed(front, "47")
    for page, places, pairs in ((front, 0, 0), (twenty, 5, 4)):
        says(page, "sieben und vierzig")
        page.emulate_media(media="print")
        assert page.inner_text(".first-rows li:nth-child(3)").split() == ["vierzig", "looks", "at", "forty", "100", "%"]
        assert page.locator(".places-off:visible").count() == places
        assert page.locator(".pair-right:visible").count() == pairs
        page.emulate_media(media="screen")


# Forgets all answers as the page opens, and keeps those that are given.
UNANSWERED = "sessionStorage.begun ||= (localStorage.removeItem('book-answers'), 'yes');"


@pytest.fixture
def asking(page: Page, origins: dict[str, str]) -> Page:
    """The twenty minutes for a reader who has answered nothing."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.add_init_script(UNANSWERED)
    opened(page, f"{origins['http']}book/twenty_minutes.html")
    return page


WAITING = ["first-numbers", "zoom-halves", "zoom-uses", "zoom-heads", "learning-and-writing", "zoom-after"]
LEGIBLE = """id => [...document.getElementById(id).querySelectorAll('text, .caption-text, b, input')]
  .filter(part => part.checkVisibility({ visibilityProperty: true })).length"""


def test_a_picture_waits_in_a_low_box_and_nothing_above_it_moves(asking: Page) -> None:
    forms = asking.locator("form[data-before]")
    assert [form.get_attribute("data-before") for form in forms.all()] == WAITING
    assert [asking.evaluate(LEGIBLE, part) for part in WAITING] == [0] * 6
    for form, part in zip(forms.all(), WAITING, strict=True):
        asking.locator(f"#{part} .ask-veil").scroll_into_view_if_needed()
        box, above = asking.locator(f"#{part}").bounding_box(), form.bounding_box()
        assert box is not None
        assert above is not None
        assert 90 <= box["height"] <= 120, part
        form.locator("label").first.click()
        assert asking.evaluate(LEGIBLE, part) > 0, part
        assert (form.bounding_box() or {})["y"] == pytest.approx(above["y"], abs=1), part
    assert asking.locator(".ask-veil").count() == 0
    asking.reload(wait_until="load")
    assert asking.locator(".ask-veil").count() == 0, "whoever has answered sees it all"


def test_the_field_plays_when_it_is_shown_and_the_others_can_be_seen_without_an_answer(asking: Page) -> None:
    asking.locator("#first-numbers .ask-veil button").scroll_into_view_if_needed()
    asking.wait_for_timeout(1500)
    assert asking.locator(".first-open").count() == 0
    asking.locator("form[data-before=first-numbers] label").first.click()
    asking.wait_for_selector(".first-open", state="attached", timeout=10_000)
    says(asking, "sieben und vierzig")
    button = asking.locator("#zoom-halves .ask-veil button")
    button.focus()
    asking.keyboard.press("Enter")
    assert asking.evaluate("document.activeElement.id") == "zoom-halves", "the focus is not lost"
    assert asking.evaluate(LEGIBLE, "zoom-halves") > 0
    asking.locator("form[data-before=zoom-uses] .ask-show").click()
    assert asking.evaluate(LEGIBLE, "zoom-uses") > 0
    assert asking.evaluate(LEGIBLE, "zoom-heads") == 0
    asking.locator("form[data-before=zoom-heads] input").first.press("ArrowDown")
    assert asking.evaluate(LEGIBLE, "zoom-heads") == 0, "an arrow chooses, and answers nothing"
    asking.emulate_media(media="print")
    assert all(asking.evaluate(LEGIBLE, part) for part in WAITING)
    assert asking.locator(".ask-veil:visible").count() == 0
    asking.emulate_media(media="screen")
    unveiled(asking)
    asking.evaluate("document.querySelector('.pair-step').scrollIntoView({ block: 'center' })")
    for row in range(1, 5):
        asking.click(".pair-step")
        assert asking.evaluate(ON_SCREEN, f".pair-rows li:nth-child({row}) .pair-right"), row


def test_a_link_to_a_picture_shows_it(page: Page, origins: dict[str, str]) -> None:
    page.add_init_script(UNANSWERED)
    opened(page, f"{origins['http']}book/twenty_minutes.html#zoom-heads")
    assert [bool(page.evaluate(LEGIBLE, part)) for part in WAITING] == [part == "zoom-heads" for part in WAITING]


def test_a_question_remarks_on_the_answer_given(twenty: Page) -> None:
    form = twenty.locator("form[data-question=ask-dot-product]")
    form.locator("label", has_text="3").click()
    assert form.locator(".answer-remark").inner_text().startswith("No.")
    assert "the first number with the second" in form.locator(".answer-remark").inner_text()
    form.locator("input").nth(0).focus()
    twenty.keyboard.press("Space")
    twenty.keyboard.press("Enter")
    assert form.locator(".answer-remark.right").inner_text().startswith("Yes")


def test_the_query_turns_and_finds_the_tens(twenty: Page) -> None:
    assert twenty.inner_text(".hand-answer") == "(5.6, 0.4)"
    twenty.focus(".hand-turn")
    twenty.keyboard.press("Enter")
    twenty.wait_for_function("document.querySelector('.hand-answer').textContent === '(0.7, 3.2)'")
    twenty.focus(".hand-length")
    twenty.keyboard.press("End")
    assert twenty.inner_text(".hand-answer") == "(0.1, 3.9)"
    assert twenty.get_attribute(".hand-angle", "aria-valuetext") == "tens"


def test_places_can_be_taken_away(twenty: Page) -> None:
    row = ".places-table tbody tr:last-child"
    assert twenty.inner_text(row).split("\t") == ["seven hundred two", "sieben hundert zwei"]
    twenty.focus(".places-box")
    twenty.keyboard.press("Space")
    assert twenty.inner_text(row).split("\t") == ["seven hundred two", "zwei hundert zwei"]


def test_writing_grows_beside_learning(twenty: Page) -> None:
    unveiled(twenty)
    assert twenty.locator(".pair-left:visible").count() == 4
    for count in range(5):
        assert twenty.locator(".pair-right:not(.pair-open)").count() == count
        twenty.click(".pair-step")
    assert twenty.locator(".pair-right:not(.pair-open)").count() == 0


def test_the_last_drawing_has_a_gpt_and_the_model_of_2017(twenty: Page) -> None:
    shown = "part => getComputedStyle(document.querySelector(`#zoom-after .model-${part}`)).opacity"
    unveiled(twenty)
    above = "document.querySelector('.after-box').getBoundingClientRect().bottom < drawing.getBoundingClientRect().top"
    assert twenty.evaluate(f"() => {{ const drawing = document.querySelector('#zoom-after svg'); return {above}; }}")
    for checked, opacity in (False, "1"), (True, "0"), (False, "1"):
        twenty.set_checked(".after-box", checked)
        at_rest(twenty)
        assert twenty.evaluate(shown, "gpt") == opacity
        assert twenty.evaluate(shown, "2017") == str(1 - int(opacity))
        assert ("no memory" in twenty.inner_text(".after-status")) != checked
        assert ("one half" in (twenty.text_content("#zoom-after title") or "")) != checked


def test_the_twenty_minutes_hold_without_scripts(silent: Page, origins: dict[str, str]) -> None:
    silent.goto(origins["http"] + "book/twenty_minutes.html", wait_until="load")
    assert silent.locator("form.answer:visible").count() == 0
    folds = silent.locator(".ask-fold")
    assert folds.count() == 10
    for fold in folds.all():
        assert fold.is_visible()
    assert silent.locator(".pair-right:visible").count() == 4
    assert silent.locator(".places-off:visible").count() == 5
    assert silent.locator("svg.drawing:visible").count() == 7
    assert silent.locator(".after:visible").count() == 0


@pytest.mark.parametrize("name", ["index", "twenty_minutes"])
def test_axe_finds_nothing_while_it_is_used(page: Page, origins: dict[str, str], name: str) -> None:
    faults = recorded(page, origins["file"])
    page.add_init_script(UNANSWERED)
    opened(page, f"{origins['file']}book/{name}.html")
    for theme in ("dark", "light") if name == "twenty_minutes" else ():
        turned(page, theme, 390)
        assert axe_findings(page, ".ask-veil") == []
    unveiled(page)
    for theme in ("light", "dark"):
        turned(page, theme, 390)
        typed(page, "seven forty")
        assert axe_findings(page, ".first-numbers") == []
        typed(page, "seventy-four")
        page.click(".first-step")
        page.click(".first-rows button")
        assert axe_findings(page, ".first-numbers, .ask, .stop-place") == []
    if name == "index":  # from a file the model comes, too
        typed(page, "447")
        fetched(page)
        typed(page, "100")
        says(page, "ein hundert")
    assert faults == []
