"""What a hand meets on a phone: targets, letters, enlarged pictures, the way up, the list of chapters.

Needs what conftest.py says.
"""

from collections.abc import Iterator

import pytest
from browser import opened, unfolded
from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.slow

LEAST = 40  # pixels, of what is touched
SMALLEST = 11  # pixels, of letters in a drawing
PAGES = ["index", "twenty_minutes", "first_steps", "positional_encoding", "multi_head_attention", "live"]
# A copy button lies over code that can be marked by hand, too; a fold inside a box opens by its whole title.
TOO_LOW = """least => [...document.querySelectorAll(
  'header button, .bd-header-article button, .bd-article :is(button, summary, select, input, label:has(> input))')]
  .filter(one => !one.closest('.toggle-button, .sr-only') && !one.matches('label *'))
  .map(one => [one.getBoundingClientRect(), one])
  .filter(([box]) => box.height > 0 && box.height < least - 0.5)
  .map(([box, one]) => `${one.tagName} ${one.className} ${one.textContent.trim().slice(0, 30)}: ${box.height}`)"""
# Letters of the drawings, as large as they come to be on the screen.
LETTERS = """smallest => [...document.querySelectorAll('svg.drawing text')]
  .map(one => [parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a, one.textContent.trim()])
  .filter(([size, text]) => text && size > 0 && size < smallest)"""
HERE = """() => {
  const here = document.querySelector(".bd-docs-nav li.active:not(:has(li.active)) > a");
  const [link, bar] = [here, here.closest(".bd-sidebar-primary")].map(one => one.getBoundingClientRect());
  return [here.textContent, link.top >= bar.top && link.bottom <= Math.min(bar.bottom, innerHeight)];
}"""


@pytest.fixture
def phone(context: BrowserContext) -> Iterator[Page]:
    """A page on a screen that is touched: what `pointer: coarse` means to the styles."""
    page = context.new_page()
    page.set_viewport_size({"width": 390, "height": 844})
    context.new_cdp_session(page).send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    yield page
    page.close()


@pytest.mark.parametrize("name", PAGES)
def test_what_is_touched_is_large_enough_and_letters_can_be_read(
    phone: Page, origins: dict[str, str], name: str
) -> None:
    opened(phone, f"{origins['http']}book/{name}.html")
    assert phone.evaluate("matchMedia('(pointer: coarse)').matches")
    unfolded(phone)
    assert phone.evaluate(TOO_LOW, LEAST) == []
    assert phone.evaluate(LETTERS, SMALLEST) == []
    cut = "all => all.filter(code => code.scrollWidth > code.clientWidth).length"
    assert phone.eval_on_selector_all(".exercise .cell_input pre", cut) == 0
    for width in (390, 320):
        phone.set_viewport_size({"width": width, "height": 844})
        assert phone.evaluate("document.documentElement.scrollWidth") == width


def test_an_enlarged_picture_stands_upright_and_is_dragged(phone: Page, origins: dict[str, str]) -> None:
    opened(phone, origins["http"] + "book/first_steps.html")  # whose last picture is wide
    picture, viewer = phone.locator(".cell_output img").last, phone.locator("dialog.picture")
    small = picture.bounding_box()
    assert small is not None
    button = picture.locator("xpath=following-sibling::button")
    for start, close in (
        (picture, lambda: phone.keyboard.press("Escape")),
        (picture, viewer.locator("img").click),
        (button, lambda: viewer.get_by_text("Close").click()),
    ):
        start.click()
        large = viewer.locator("img").bounding_box()
        assert large is not None
        assert (large["x"], large["y"] >= 0) == (0, True)
        assert large["width"] > 1.5 * small["width"]
        assert large["width"] / large["height"] == pytest.approx(
            small["width"] / small["height"], rel=0.1
        )  # it has a border
        assert viewer.get_by_text("Drag").is_visible()
        viewer.evaluate("viewer => viewer.scrollTo(1e6, 0)")
        end = viewer.locator("img").bounding_box()
        assert end is not None
        assert end["x"] + end["width"] <= 390.5, "its right end can be seen"
        close()
        viewer.wait_for(state="detached")


def test_the_way_up_is_an_arrow_that_covers_nothing_pressed_and_goes_while_one_reads(
    phone: Page, origins: dict[str, str]
) -> None:
    opened(phone, origins["http"] + "book/twenty_minutes.html")
    arrow = phone.get_by_role("button", name="Back to top")
    for offset, is_seen in ((0, False), (200, True)):
        phone.evaluate("scrollTo(0, 4000)")
        phone.wait_for_timeout(200)
        phone.evaluate(
            """offset => {
              const button = Object.assign(document.createElement("button"), { textContent: "Press", id: "under" });
              document.getElementById("under")?.remove();
              button.style = `position: fixed; right: 30px; bottom: ${20 + offset}px`;
              document.body.append(button);
            }""",
            offset,
        )
        phone.mouse.wheel(0, -500)
        phone.wait_for_timeout(500)
        assert arrow.is_visible() == is_seen
    box = arrow.bounding_box()
    assert box is not None
    assert (box["width"], box["height"]) == (LEAST, LEAST)
    assert box["x"] + box["width"] > 380
    arrow.wait_for(state="hidden", timeout=10_000)


def test_the_list_of_chapters_shows_the_one_that_is_open(phone: Page, origins: dict[str, str]) -> None:
    phone.set_viewport_size({"width": 1280, "height": 500})
    for name, title in (("first_steps", "First steps"), ("literature", "Literature"), ("live", "Try it in the page")):
        opened(phone, f"{origins['http']}book/{name}.html")  # the theme keeps where the list was
        text, is_seen = phone.evaluate(HERE)
        assert (text.split(". ")[-1], is_seen) == (title, True)
    phone.set_viewport_size({"width": 390, "height": 500})
    phone.locator("button.primary-toggle:visible").first.click()
    phone.wait_for_timeout(500)
    text, is_seen = phone.evaluate(HERE)
    assert (text, is_seen) == ("18. Try it in the page", True)
