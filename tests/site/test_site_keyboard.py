"""A page by keys alone: the way of the focus, what it can reach, and the bars that open and close."""

from typing import Any

import pytest
from browser import opened
from playwright.sync_api import Page

pytestmark = pytest.mark.slow

# What stands under the focus: its name, whether one sees it and its ring, and its place in the order of the page.
FOCUSED = """() => {
  const one = document.activeElement;
  if (one === document.body) return null;
  const box = one.getBoundingClientRect();
  const style = getComputedStyle(one);
  const around = one.closest('label, .vega-bind') ?? one;
  window.allFocusable ??= new Map([...document.querySelectorAll('*')].map((element, i) => [element, i]));
  return {
    place: window.allFocusable.get(one),
    tag: one.tagName,
    name: [one.getAttribute('aria-label'), one.title, around.textContent, one.querySelector('img')?.alt]
      .map(text => (text ?? '').trim()).find(text => text)?.slice(0, 60),
    href: one.getAttribute('href'),
    seen: box.width > 0 && box.height > 0 && style.visibility === 'visible',
    ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1 || style.boxShadow !== 'none',
    scrolls: one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight,
    html: one.outerHTML.slice(0, 120),
  };
}"""


def walk(page: Page, limit: int = 400) -> list[dict[str, Any]]:
    """Every stop of the Tab key from the top of the page to its end."""
    stops: list[dict[str, Any]] = []
    for _ in range(limit):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUSED)
        if stop is None or (stops and stop["place"] == stops[0]["place"]):
            return stops
        stops.append(stop)
    raise AssertionError(f"more than {limit} stops, the last one {stops[-1]['html']}")


def test_the_tab_key_walks_a_page_in_order_and_reaches_its_controls(page: Page, origins: dict[str, str]) -> None:
    page.goto(f"{origins['http']}book/attention.html")
    page.wait_for_selector(".vega-chart[data-drawn] + .chart-data")
    stops = walk(page)
    controls, charts = (page.locator(where).count() for where in (".vega-bind :is(input, select)", ".vega-chart"))
    assert "main-content" in (stops[0]["href"] or ""), f"first the way past the bars, not {stops[0]['html']}"
    assert [stop["html"] for stop in stops if not stop["name"] and stop["tag"] not in {"PRE", "DIV"}] == []
    assert [stop["html"] for stop in stops if not stop["seen"]] == []
    assert [stop["html"] for stop in stops if not stop["ring"]] == []
    assert [stop["html"] for stop in stops if stop["tag"] in {"PRE", "DIV"} and not stop["scrolls"]] == []
    assert [stop["place"] for stop in stops] == sorted(stop["place"] for stop in stops)
    assert controls > 0
    assert sum(stop["tag"] in {"INPUT", "SELECT"} for stop in stops) >= controls
    assert sum(stop["name"] == "Data of this chart" for stop in stops) == charts > 0


def test_the_bar_of_chapters_opens_and_closes_by_keys_on_a_phone(page: Page, origins: dict[str, str]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, f"{origins['http']}book/glossary.html")
    chapter = page.locator("#pst-primary-sidebar a, dialog a").filter(has_text="Masks").first
    assert not chapter.is_visible()
    page.locator("button.primary-toggle:visible").first.focus()
    page.keyboard.press("Enter")
    chapter.wait_for(state="visible", timeout=3000)
    page.keyboard.press("Escape")
    chapter.wait_for(state="hidden", timeout=3000)
    focused = page.evaluate("document.activeElement.className")
    assert "primary-toggle" in focused, "the focus comes back to the button"


def test_search_opens_with_its_keys_and_closes_with_escape(page: Page, origins: dict[str, str]) -> None:
    opened(page, f"{origins['http']}book/glossary.html")
    page.keyboard.press("Control+k")
    page.wait_for_function("document.activeElement.type === 'search'", timeout=3000)
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.type !== 'search'", timeout=3000)
