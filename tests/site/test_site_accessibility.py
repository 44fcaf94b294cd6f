"""axe-core finds nothing to mend on any page, and every chart stands out from its ground: in the light and the dark
scheme, on a wide screen and on a phone.

Each page is opened once, with every folded box open and every chart drawn. Its theme and width are then turned, as a
reader's own switch does. axe is in tests/site/vendor and is never served.
"""

# The fixtures of test_site.py are used here by import.
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page
from test_site import PAGES, ROOT, context, opened, origins, site

pytestmark = pytest.mark.slow
__all__ = ["context", "origins", "site"]

AXE = (ROOT / "tests" / "site" / "vendor" / "axe.min.js").read_text("utf-8")
# What is there a hundred times over is looked at once: of a chart's table the first rows; of the words of a listing,
# whose colours are all that could be wrong, one of each kind, by CONTRASTS.
THINNED = """() => {
  for (const listing of document.querySelectorAll('pre')) listing.textContent = listing.textContent;
  for (const row of document.querySelectorAll('.chart-data-frame tr:nth-child(n + 4)')) row.remove();
}"""
# The names inside a drawing and its table depend neither on the width nor on the theme.
NARROW = {"exclude": [[".vega-chart svg"], [".chart-data-frame table"]]}
# What axe cannot see: a text in a drawing on what lies behind it, and marks on their ground. Ratios of WCAG 2.2:
# 1.4.3 for text, 1.4.11 for marks.
CONTRASTS = (ROOT / "tests" / "site" / "contrasts.js").read_text("utf-8")
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
def test_axe_finds_nothing_and_charts_are_legible(context: BrowserContext, origins: dict[str, str], name: str) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": 1280, "height": 900})
    opened(page, origins["http"] + name, "light")
    page.wait_for_timeout(300)
    faults = {"faint, light": page.evaluate(CONTRASTS)}
    turned(page, "dark", 390)
    faults["faint, dark"] = page.evaluate(CONTRASTS)
    page.evaluate(THINNED)
    page.evaluate(AXE)
    for theme, width in [("dark", 390), ("light", 390), ("light", 1280), ("dark", 1280)]:
        turned(page, theme, width)
        where = None if (theme, width) == ("light", 1280) else NARROW
        faults[f"axe, {theme}, {width} pixels"] = findings(page, where)
    page.close()
    assert not any(faults.values()), faults


def test_axe_sees_a_fault(context: BrowserContext, origins: dict[str, str]) -> None:
    """A page with faults of its own: pale text, a picture without a text, a field without a label."""
    page = context.new_page()
    opened(page, origins["http"] + "search.html", "light")
    page.evaluate(AXE)
    page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend',"
        '\'<p style="color:#bbb;background:#fff">pale</p><img src="_static/favicon.svg"><input>\')'
    )
    found = {line.split(":")[0] for line in findings(page)}
    page.close()
    assert {"color-contrast", "image-alt", "label"} <= found
