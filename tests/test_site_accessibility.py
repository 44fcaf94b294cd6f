"""axe-core finds nothing to mend on any page: in the light scheme on a wide screen, in the dark one on a phone.

Each page is opened once, with every folded box open and every chart drawn, and the second look comes after turning the
theme and the width of the same page, as a reader's own switch does. axe is in tests/vendor and is never served.
"""

# The fixtures of test_site.py are used here by import.
# ruff: noqa: F811
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page
from test_site import PAGES, ROOT, context, opened, origins, site

pytestmark = pytest.mark.slow
__all__ = ["context", "origins", "site"]

AXE = (ROOT / "tests" / "vendor" / "axe.min.js").read_text("utf-8")
# The text and names inside a drawing and the cells of its table do not depend on the width. They are looked at once.
SECOND_LOOK = {"exclude": [[".vega-chart svg"], [".chart-data-frame table"]]}
FINDINGS = """async (context) => {
  const {violations} = await axe.run(context ?? document, {resultTypes: ['violations'], preload: false});
  return violations.flatMap(({id, nodes}) => nodes.map((n) => `${id}: ${n.target.join(' ')}: ${n.failureSummary}`));
}"""
DRAWN_IN = "theme => [...document.querySelectorAll('.vega-chart')].every(chart => chart.dataset.drawn === theme)"


def turned(page: Page, theme: str, width: int) -> None:
    """The same page in another theme and width, with its charts drawn anew."""
    page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function(DRAWN_IN, arg=theme)
    # Charts are fitted to a new width a moment after it.
    page.wait_for_timeout(400)


def findings(page: Page, where: dict[str, Any] | None = None) -> list[str]:
    return page.evaluate(FINDINGS, where)


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(context: BrowserContext, origins: dict[str, str], name: str) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": 1280, "height": 900})
    opened(page, origins["http"] + name, "light")
    page.wait_for_timeout(300)
    page.evaluate(AXE)
    light = findings(page)
    turned(page, "dark", 390)
    dark = findings(page, SECOND_LOOK)
    page.close()
    assert light == [], "light, 1280 pixels wide"
    assert dark == [], "dark, 390 pixels wide"


def test_axe_sees_a_fault(context: BrowserContext, origins: dict[str, str]) -> None:
    """A page with faults of its own: pale text, a picture without a text, a field without a label."""
    page = context.new_page()
    opened(page, origins["http"] + "search.html", "light")
    page.evaluate(AXE)
    page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend',"
        "'<p style=\"color:#bbb;background:#fff\">pale</p><img src=\"_static/favicon.svg\"><input>')"
    )
    found = {line.split(":")[0] for line in findings(page)}
    page.close()
    assert {"color-contrast", "image-alt", "label"} <= found
