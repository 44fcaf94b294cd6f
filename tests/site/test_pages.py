"""Every page of the built site in a browser, visited once: it is whole, quiet, light, legible and accessible, on a
wide screen and on a phone, in the light and the dark scheme, from a server or from a file, which allows less, and on
paper.

Code and output are at most 80 columns wide, and nothing is cut beside both bars. On a phone text goes on below; code,
rows of columns, formulas and tables scroll, and a shadow says so; pictures and charts fit.

A visit collects what there is to see; the checks read it. axe is in tests/site/vendor and is never served.
"""

import gzip
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from browser import CHAPTERS, PAGES, ROOT, SITE, axe_findings, opened, recorded, turned, unfolded
from playwright.sync_api import Page

pytestmark = pytest.mark.slow

FACTS = """() => ({
  formulas: document.querySelectorAll('.math.notranslate').length,
  typeset: [...document.querySelectorAll('.math.notranslate')].filter(m => m.querySelector('math')).length,
  loose: [...document.querySelectorAll('span.math')].map(m => m.nextSibling)
    .filter(next => next?.nodeType === Node.TEXT_NODE && /^[.,;:]/.test(next.data)
      && getComputedStyle(next.parentElement).whiteSpace !== 'nowrap').map(next => next.data),
  marks: [...document.querySelectorAll('article :is(h1, h2, h3, p, li, dd, td, th)')].flatMap(e => [...e.childNodes])
    .filter(node => node.nodeType === Node.TEXT_NODE && /\\*\\*|`|\\]\\(/.test(node.data)).map(node => node.data),
  charts: document.querySelectorAll('.vega-chart').length,
  drawn: document.querySelectorAll('.vega-chart svg.marks, .vega-chart canvas.marks').length,
  unnamed: [...document.querySelectorAll('.vega-chart')].filter(c => !c.querySelector('[aria-label]')).length,
  chartErrors: [...document.querySelectorAll('.vega-chart .error')].map(e => e.textContent),
  pictures: [...document.images].filter(i => !i.complete || !i.naturalWidth || !i.alt).map(i => i.outerHTML),
  theme: document.documentElement.dataset.theme,
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
})"""
# Bars, buttons and menus; and what sticks out on the right of an A4 page between its margins.
PAPER = """() => {
  const shown = element => element.getClientRects().length > 0;
  const article = document.querySelector('article');
  return {
    furniture: [...document.querySelectorAll('.bd-sidebar, .bd-header, .bd-header-article, .prev-next-footer,'
      + '.bd-footer, .bd-footer-content, .headerlink, .copybtn, button, .vega-bindings, #jb-print-docs-body, dialog')]
      .filter(shown).map(element => element.className || element.tagName),
    titles: [...document.querySelectorAll('h1')].filter(shown).length,
    outside: [...article.querySelectorAll('pre, table, img, svg.marks, p, figure')].filter(shown)
      .filter(element => element.getBoundingClientRect().right > innerWidth + 1)
      .map(element => element.outerHTML.slice(0, 120)),
    cut: [...article.querySelectorAll('pre, .vega-chart, .cell_output, .pst-scrollable-table-container')].filter(shown)
      .filter(element => element.scrollWidth > element.clientWidth + 1)
      .filter(element => getComputedStyle(element).overflowX !== 'visible').map(element => element.className),
  };
}"""
# What is there a hundred times over is looked at once: of a chart's table the first rows; of the words of a listing
# or a signature, whose colours are all that could be wrong, one of each kind.
THINNED = """() => {
  const seen = new Set();
  for (const listing of document.querySelectorAll('pre, dt.sig')) {
    for (const word of [...listing.querySelectorAll('span:not(.line, .tabular)')].reverse()) {  // those inside first
      if (word.children.length) continue;
      const kind = [listing.parentElement, word.parentElement, word].map(one => one.className).join();
      if (seen.has(kind)) word.replaceWith(word.textContent);
      seen.add(kind);
    }
  }
  for (const row of document.querySelectorAll('.chart-data-frame tr:nth-child(n + 4)')) row.remove();
}"""
# What axe cannot see: a text in a drawing on what lies behind it, and marks on their ground. Ratios of WCAG 2.2:
# 1.4.3 for text, 1.4.11 for marks.
CONTRASTS = (ROOT / "tests" / "site" / "contrasts.js").read_text("utf-8")
BLOCKS = (ROOT / "tests" / "site" / "widths.js").read_text("utf-8")
OF_COLOURS = ("color-contrast", "link-in-text-block")  # the rules of axe that depend on the scheme
LAPTOP, PHONE = 1280, 390
SMALLEST_LETTERS = 11  # pixels, in a chart
FRONT = (CHAPTERS[0], "search.html")
# Pages of each kind, for `make test`; the others are like these, and for `make test-deep`. A place that computes, the
# search and the first screen have tests from files of their own.
FROM_A_SERVER = (*FRONT, "book/live.html", "book/notation.html")
OF_EACH_KIND = (*FROM_A_SERVER, "book/attention.html", "book/api.html")
FIRST_VISIT = 700_000  # bytes, gzipped: everything that a page needs from an empty cache
NEXT_PAGE = 150_000  # its own HTML and pictures; the rest is in the cache by then
PACKED = {".png", ".jpg", ".woff", ".woff2"}  # a server sends these as they are


@dataclass
class Visit:
    """What a page asks for, from an empty cache, and what is on it."""

    name: str
    files: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    facts: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    paper: dict[str, Any] = field(default_factory=dict)
    faint: dict[str, list[str]] = field(default_factory=dict)
    axe: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    blocks: dict[int, list[dict[str, Any]]] = field(default_factory=dict)


def look(page: Page, origin: str, visit: Visit) -> None:
    """Light and wide, on paper, then turned to the dark scheme and a phone's width."""
    files: set[str] = set()
    page.on("request", lambda request: files.add(request.url.removeprefix(origin).split("?")[0].split("#")[0]))
    visit.faults = recorded(page, origin)
    opened(page, origin + visit.name)
    page.evaluate("document.fonts.ready.then(() => null)")
    visit.files = {file for file in files if not file.startswith(("data:", "blob:"))}
    visit.blocks[LAPTOP] = page.evaluate(BLOCKS)
    page.evaluate(THINNED)
    unfolded(page)
    visit.facts["light", LAPTOP] = page.evaluate(FACTS)
    visit.faint["light"] = page.evaluate(CONTRASTS)
    visit.axe["light", LAPTOP] = axe_findings(page)
    if visit.name in CHAPTERS:
        page.set_viewport_size({"width": 665, "height": 1000})  # 176 mm at 96 pixels an inch
        page.emulate_media(media="print")
        visit.paper = page.evaluate(PAPER)
        page.emulate_media(media="screen")
    turned(page, "dark", PHONE)
    visit.blocks[PHONE] = page.evaluate(BLOCKS)
    visit.facts["dark", PHONE] = page.evaluate(FACTS)
    visit.faint["dark"] = page.evaluate(CONTRASTS)
    visit.axe["dark", PHONE] = axe_findings(page)
    # The colours of the bars around a page are those of every page.
    for theme, width in (("light", PHONE), ("dark", LAPTOP)) if visit.name in FRONT else ():
        turned(page, theme, width)
        visit.axe[theme, width] = axe_findings(page, None, *OF_COLOURS)


def assert_whole(facts: dict[str, Any], theme: str, width: int) -> None:
    assert facts["typeset"] == facts["formulas"], "a formula that is no MathML, which a screen reader reads"
    assert facts["loose"] == [], "a comma that may stand at the beginning of a line"
    assert facts["marks"] == [], "a mark of Markdown that has become a letter"
    assert facts["drawn"] == facts["charts"]
    assert facts["chartErrors"] == []
    assert facts["unnamed"] == 0, "a chart without a name for screen readers"
    assert facts["pictures"] == [], "pictures that are missing or have no alt text"
    assert facts["theme"] == theme
    assert facts["overflow"] <= 0, f"the page is wider than a screen of {width} pixels"


def opens_whole_and_quietly(visit: Visit) -> None:
    assert visit.faults == []
    assert list(visit.facts) == [("light", LAPTOP), ("dark", PHONE)]
    for (theme, width), facts in visit.facts.items():
        assert_whole(facts, theme, width)


def named(blocks: list[dict[str, Any]]) -> list[str]:
    return [f"{block['kind']}: {block['words']}" for block in blocks]


def nothing_is_cut_beside_both_bars(visit: Visit) -> None:
    cut = [block for block in visit.blocks[LAPTOP] if block["cut"]]
    assert named([block for block in cut if block["kind"] != "table" or not block["shadow"]]) == []
    if visit.name == "book/attention.html":
        kinds = {"code", "output", "formula", "table", "picture", "chart"}
        assert {block["kind"] for block in visit.blocks[LAPTOP]} == kinds


def on_a_phone_only_code_and_columns_scroll(visit: Visit) -> None:
    cut = [block for block in visit.blocks[PHONE] if block["cut"]]
    assert named([block for block in cut if block["kind"] == "picture"]) == []
    assert named([block for block in cut if block["kind"] == "output" and not block["rows"]]) == []
    assert named([block for block in cut if not block["shadow"]]) == [], "nothing says that it goes on"


def letters_of_charts_can_be_read_on_a_phone(visit: Visit) -> None:
    charts = [block for block in visit.blocks[PHONE] if block["kind"] == "chart"]
    small = [block for block in charts if block["letters"] < SMALLEST_LETTERS - 0.01]
    assert [(name, round(block["letters"], 1)) for name, block in zip(named(small), small, strict=True)] == []


def charts_and_listings_are_legible(visit: Visit) -> None:
    assert visit.faint == {"light": [], "dark": []}


def axe_finds_nothing(visit: Visit) -> None:
    assert len(visit.axe) == (4 if visit.name in FRONT else 2)
    assert not any(visit.axe.values()), visit.axe


@cache
def weight(file: str) -> int:
    """The bytes on the wire."""
    data = (SITE / file).read_bytes()
    return len(data) if Path(file).suffix in PACKED else min(len(data), len(gzip.compress(data, 9)))


def a_first_visit_and_the_next_page_are_light(visit: Visit) -> None:
    first = sum(map(weight, visit.files))
    assert 50_000 < first <= FIRST_VISIT, "below: the requests were not seen"
    pictures = [file for file in visit.files if file.startswith("_images/")]
    assert weight(visit.name) + sum(map(weight, pictures)) <= NEXT_PAGE


def it_loads_what_it_uses_and_draws_its_icons_once(visit: Visit) -> None:
    if visit.name != "search.html":
        heavy = ("searchindex.js", "searchtools.js", "fontawesome", "thebe")
        assert [file for file in visit.files if any(part in file for part in heavy)] == []
    assert "_static/fonts/icons-solid.woff" in visit.files


def paper_shows_the_page_and_nothing_else(visit: Visit) -> None:
    if visit.name in CHAPTERS:
        assert visit.paper == {"furniture": [], "titles": 1, "outside": [], "cut": []}


CHECKS = (
    opens_whole_and_quietly,
    nothing_is_cut_beside_both_bars,
    on_a_phone_only_code_and_columns_scroll,
    letters_of_charts_can_be_read_on_a_phone,
    charts_and_listings_are_legible,
    axe_finds_nothing,
    a_first_visit_and_the_next_page_are_light,
    it_loads_what_it_uses_and_draws_its_icons_once,
    paper_shows_the_page_and_nothing_else,
)


# One test for a page: two processes that share its checks would visit it twice.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in OF_EACH_KIND else pytest.mark.deep) for name in PAGES]
)
def test_a_page(page: Page, origins: dict[str, str], name: str, subtests: pytest.Subtests) -> None:
    visit = Visit(name)
    look(page, origins["http" if name in FROM_A_SERVER else "file"], visit)
    for check in CHECKS:
        with subtests.test(check.__name__):
            check(visit)


def test_axe_sees_a_fault(page: Page, origins: dict[str, str]) -> None:
    """A page with faults of its own: pale text, a picture without a text, a field without a label."""
    opened(page, origins["http"] + "search.html")
    page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend',"
        '\'<p style="color:#bbb;background:#fff">pale</p><img src="_static/favicon.svg"><input>\')'
    )
    found = {line.split(":")[0] for line in axe_findings(page)}
    assert {"color-contrast", "image-alt", "label"} <= found
