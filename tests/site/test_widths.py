"""What a reader sees without unfolding anything: nothing is cut beside both bars, and little on a phone.

Code and output are at most 80 columns wide. On a phone text goes on below; code and rows of columns scroll, and a
shadow says so; pictures and charts fit.
"""

from typing import Any

import pytest
from browser import API, CHAPTERS, opened, turned
from playwright.sync_api import BrowserContext

pytestmark = pytest.mark.slow

LAPTOP, PHONE = 1280, 390
ROWS_ON_A_PHONE = 30  # outputs whose columns say more than a phone's width holds
WIDE_ON_A_PHONE = 3  # charts whose words would run into each other: a search tree, the n-grams of a sentence, 27 places
SMALLEST_LETTERS = 11  # pixels, in a chart
SEEN = """() => {
  const seen = [];
  const fits = box => box.scrollWidth <= box.clientWidth + 1;
  const isShown = box => box.checkVisibility() && !box.closest('.toggle-hidden');
  for (const pre of document.querySelectorAll('.bd-article pre')) {
    if (!isShown(pre)) continue;
    const kind = pre.closest('.output') ? 'output' : 'code';
    const words = pre.textContent.trim().split('\\n')[0].slice(0, 60);
    const rows = pre.querySelector('.tabular') !== null;
    seen.push({kind, words, cut: !fits(pre), rows, shadow: pre.classList.contains('goes-on')});
  }
  const room = document.querySelector('.bd-article').getBoundingClientRect().right + 1;
  for (const picture of document.querySelectorAll('.bd-article :is(img, svg.drawing)')) {
    if (!isShown(picture)) continue;
    const words = picture.alt || picture.querySelector('title')?.textContent || '';
    const box = picture.closest('.cell_output') ?? picture.parentElement;
    const cut = picture.getBoundingClientRect().right > room || !fits(box);
    seen.push({kind: 'picture', words: words.slice(0, 60), cut});
  }
  for (const chart of document.querySelectorAll('.vega-chart')) {
    if (!isShown(chart)) continue;
    const svg = chart.querySelector('svg.marks');
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const letters = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim() && text.checkVisibility())
      .map(text => scale * parseFloat(getComputedStyle(text).fontSize));
    const words = svg.getAttribute('aria-label') ?? svg.querySelector('[aria-label]').getAttribute('aria-label');
    const [cut, shadow] = [!fits(chart), chart.classList.contains('goes-on')];
    seen.push({kind: 'chart', words: words.slice(0, 60), cut, shadow, letters: Math.min(...letters)});
  }
  return seen;
}"""


@pytest.fixture(scope="module")
def seen(context: BrowserContext, origins: dict[str, str]) -> dict[int, list[dict[str, Any]]]:
    """The blocks of all pages at either width."""
    found: dict[int, list[dict[str, Any]]] = {LAPTOP: [], PHONE: []}
    for name in (*CHAPTERS, *API):
        page = context.new_page()
        opened(page, origins["http"] + name)
        for width, blocks in found.items():
            turned(page, "light", width)
            page.wait_for_timeout(150)  # the boxes are marked a moment after
            blocks += [{"page": name, **block} for block in page.evaluate(SEEN)]
        page.close()
    return found


def named(blocks: list[dict[str, Any]]) -> list[str]:
    return [f"{block['page']}: {block['kind']}: {block['words']}" for block in blocks]


def test_beside_both_bars_nothing_is_cut(seen: dict[int, list[dict[str, Any]]]) -> None:
    assert {block["kind"] for block in seen[LAPTOP]} == {"code", "output", "picture", "chart"}
    assert named([block for block in seen[LAPTOP] if block["cut"]]) == []


def test_on_a_phone_only_code_and_what_is_read_in_columns_scroll(seen: dict[int, list[dict[str, Any]]]) -> None:
    cut = [block for block in seen[PHONE] if block["cut"]]
    assert named([block for block in cut if block["kind"] == "picture"]) == []
    assert named([block for block in cut if block["kind"] == "output" and not block["rows"]]) == []
    assert named([block for block in cut if not block["shadow"]]) == [], "nothing says that it goes on"
    for kind, most in (("output", ROWS_ON_A_PHONE), ("chart", WIDE_ON_A_PHONE)):
        wide = named([block for block in cut if block["kind"] == kind])
        assert len(wide) <= most, wide


def test_the_letters_of_a_chart_can_be_read_on_a_phone(seen: dict[int, list[dict[str, Any]]]) -> None:
    small = [block for block in seen[PHONE] if block["kind"] == "chart" and block["letters"] < SMALLEST_LETTERS - 0.01]
    assert [(name, round(block["letters"], 1)) for name, block in zip(named(small), small, strict=True)] == []


def test_a_picture_that_the_screen_makes_smaller_opens_at_its_size(context: BrowserContext, origins: dict[str, str]):
    page = context.new_page()
    opened(page, origins["http"] + "book/speed.html")
    turned(page, "light", PHONE)
    picture, viewer = page.locator(".cell_output img").first, page.locator("dialog.picture")
    for close in (lambda: page.keyboard.press("Escape"), viewer.click):
        picture.click()
        assert viewer.locator("img").evaluate("image => image.clientWidth") > PHONE
        close()
        viewer.wait_for(state="detached")
    page.close()
