"""What the built pages weigh in a browser, and what is left of them on paper. Needs what test_site.py needs."""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext
from test_site import CHAPTERS, PAGES, SITE, context, origins, site  # noqa: F401  (fixtures)

pytestmark = pytest.mark.slow

FIRST_VISIT = 1_000_000  # bytes, gzipped: everything that a page needs from an empty cache
NEXT_PAGE = 150_000  # its own HTML and pictures; the rest is in the cache by then
PACKED = {".png", ".jpg", ".woff", ".woff2"}  # a server sends these as they are
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


@dataclass(frozen=True)
class Visit:
    """What a page asked for, from an empty cache, and how it looks on paper."""

    files: frozenset[str]
    paper: dict[str, Any]


@cache
def weight(file: str) -> int:
    """The bytes on the wire."""
    data = (SITE / file).read_bytes()
    return len(data) if Path(file).suffix in PACKED else min(len(data), len(gzip.compress(data, 9)))


def visit(context: BrowserContext, origin: str, name: str) -> Visit:  # noqa: F811
    page = context.new_page()
    files: set[str] = set()
    page.on("request", lambda request: files.add(request.url.removeprefix(origin).split("?")[0].split("#")[0]))
    page.goto(origin + name, wait_until="load")
    page.evaluate("async () => { await window.MathJax?.startup?.promise; await document.fonts.ready; }")
    page.set_viewport_size({"width": 665, "height": 1000})  # 176 mm at 96 pixels an inch
    page.emulate_media(media="print")
    paper = page.evaluate(PAPER) if name in CHAPTERS else {}
    page.close()
    return Visit(frozenset(file for file in files if not file.startswith(("data:", "blob:"))), paper)


@pytest.fixture(scope="module")
def visits(context: BrowserContext, origins: dict[str, str]) -> Iterator[dict[str, Visit]]:  # noqa: F811
    """Every page, opened once."""
    return {name: visit(context, origins["http"], name) for name in PAGES}  # type: ignore[return-value]


def test_every_page_is_light_on_a_first_visit(visits: dict[str, Visit]) -> None:
    weights = {name: sum(map(weight, seen.files)) for name, seen in visits.items()}
    assert min(weights.values()) > 50_000, "the requests were not seen"
    assert {name: size for name, size in weights.items() if size > FIRST_VISIT} == {}


def test_every_page_is_light_after_another(visits: dict[str, Visit]) -> None:
    weights = {
        name: weight(name) + sum(weight(file) for file in seen.files if file.startswith("_images/"))
        for name, seen in visits.items()
    }
    assert {name: size for name, size in weights.items() if size > NEXT_PAGE} == {}


def test_no_page_loads_what_only_search_needs_or_what_draws_icons_twice(visits: dict[str, Visit]) -> None:
    heavy = (
        "fontawesome.js",
        "searchindex.js",
        "searchtools.js",
        "fa-solid-900.ttf",
        "-900.woff2",
        "-400.woff2",
        "thebe",
    )
    loaded = {
        (name, file) for name, seen in visits.items() for file in seen.files for part in heavy
        if part in file and name != "search.html"
    }  # fmt: skip
    assert loaded == set()
    assert all(any("fa-solid-900.woff" in file for file in seen.files) for seen in visits.values())


def test_every_icon_has_its_glyph_and_its_rule(site: Path) -> None:  # noqa: F811
    from fontTools.ttLib import TTFont

    styles = "".join(path.read_text("utf-8") for path in (site / "_static" / "styles").glob("*.css"))
    glyphs = set()
    for font in (site / "_static" / "vendor" / "fontawesome" / "webfonts").glob("*.woff"):
        glyphs |= set(TTFont(font).getBestCmap())
    pages = [path.read_text("utf-8") for path in site.glob("book/*.html")]
    names = {name for page in pages for group in re.findall(r'<(?:i|span) class="[^"]*\bfa[srb]?\b[^"]*"', page)
             for name in re.findall(r"\bfa-[a-z-]+", group)} - {"fa-solid", "fa-lg"}  # fmt: skip
    assert len(names) > 8
    for name in names:
        rule = re.search(rf'\.{name}:{{1,2}}before[^{{]*\{{content:"\\([0-9a-f]+)"', styles)
        assert rule is not None, f"no rule for {name}"
        assert int(rule[1], 16) in glyphs, f"no glyph for {name}"


def test_no_source_maps(site: Path) -> None:  # noqa: F811
    assert [path.name for path in site.rglob("*.map")] == []
    texts = {path.name: path.read_text("utf-8") for path in [*site.rglob("*.js"), *site.rglob("*.css")]}
    assert [name for name, text in texts.items() if "sourceMappingURL=" in text] == []


@pytest.mark.parametrize("fact", ["furniture", "outside", "cut"])
def test_paper_shows_the_chapter_and_nothing_else(visits: dict[str, Visit], fact: str) -> None:
    assert {name: seen.paper[fact] for name, seen in visits.items() if seen.paper and seen.paper[fact]} == {}


def test_paper_shows_one_title(visits: dict[str, Visit]) -> None:
    assert {seen.paper["titles"] for seen in visits.values() if seen.paper} == {1}
