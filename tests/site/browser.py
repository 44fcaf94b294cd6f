"""What the tests of the built site share: its pages, a page opened and settled, what goes wrong on it."""

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page
from torch import Tensor, tensor

from workshop.site.book_index import pages_in_order
from workshop.site.chromium import SETTLED

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
CHAPTERS = [path.relative_to(ROOT).with_suffix(".html").as_posix() for path in pages_in_order(ROOT)]
API = ["book/literature.html", "book/api.html", "book/api_tools.html"]  # pages without cells, so without a notebook
PAGES = [*CHAPTERS, *API, "search.html", "genindex.html"]
DRAWN_IN = "theme => [...document.querySelectorAll('.vega-chart')].every(chart => chart.dataset.drawn === theme)"
# The boxes that hide a part are marked when the page has been laid out anew.
LAID_OUT = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
# The charts are drawn for a new width a moment after it, and once more, for good, when their mark is taken away.
FITTED = "() => typeof drawnWidth === 'undefined' || drawnWidth === innerWidth"
TURN = """theme => {
  document.querySelectorAll('.vega-chart').forEach(chart => { delete chart.dataset.drawn; });
  document.documentElement.dataset.theme = theme;
}"""
AXE = (ROOT / "tests" / "site" / "vendor" / "axe.min.js").read_text("utf-8")  # never served
FINDINGS = """async ([selector, rules]) => (await axe.run(selector ?? document,
  {resultTypes: ['violations'], preload: false, ...(rules.length && {runOnly: rules})}))
  .violations.flatMap(({id, nodes}) => nodes.map(node => `${id}: ${node.target.join(' ')}: ${node.failureSummary}`))"""
TRANSLATED = """() => {
  const text = document.querySelector('.live-translation').textContent;
  return text && !text.endsWith('…');
}"""
TRANSITIONS = """() => Promise.race([new Promise(done => setTimeout(done, 2000)), Promise.allSettled(
  document.getAnimations().filter(one => one.effect.getComputedTiming().endTime < 1e6).map(one => one.finished))])"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A server of a folder: its address."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def recorded(page: Page, origin: str) -> list[str]:
    """A list that fills with whatever goes wrong on the page: foreign or failed requests, messages, errors."""
    faults: list[str] = []

    def on_request(request: Any) -> None:
        if not request.url.startswith((origin, "data:", "blob:")):
            faults.append(f"request to another host: {request.url}")

    def on_console(message: Any) -> None:
        if message.type in {"error", "warning"}:
            faults.append(f"console: {message.text}")

    def on_response(response: Any) -> None:
        if response.status >= 400:
            faults.append(f"{response.status} for {response.url}")

    page.on("request", on_request)
    page.on("response", on_response)
    page.on("requestfailed", lambda request: faults.append(f"failed: {request.url} ({request.failure})"))
    page.on("console", on_console)
    page.on("pageerror", lambda error: faults.append(f"script: {error.message}"))
    return faults


def choose(page: Page, theme: str) -> None:
    """Open what comes in a theme: without a choice of its own the book writes a warning on a first visit."""
    page.add_init_script(f"for (const key of ['mode', 'theme']) localStorage.setItem(key, '{theme}');")


def opened(page: Page, url: str, theme: str = "light") -> None:
    """Open a page in a theme and wait until it is drawn."""
    choose(page, theme)
    page.goto(url, wait_until="load")
    page.wait_for_function(SETTLED)


@contextmanager
def visited(context: BrowserContext, origin: str, name: str, slowly: bool = False) -> Iterator[Page]:
    """A page of the book before anything is pressed. When it is left, nothing must have gone wrong on it.

    Not `slowly`, it makes no pauses between the tokens that it writes, as for a reader who wants no motion.
    """
    page = context.new_page()
    page.emulate_media(reduced_motion="no-preference" if slowly else "reduce")
    faults = recorded(page, origin)
    choose(page, "light")
    page.goto(f"{origin}book/{name}.html", wait_until="load")
    page.emulate_media(reduced_motion="no-preference")  # the script has read it
    yield page
    page.close()
    assert faults == []


def at_rest(page: Page) -> None:
    """Wait for what fades and moves. A tab behind another draws no frames, and ends no transition."""
    page.bring_to_front()
    page.evaluate(TRANSITIONS)


def unfolded(page: Page) -> None:
    """Open the folded boxes: what is in them counts too."""
    page.evaluate("document.querySelectorAll('details').forEach(box => { box.open = true; })")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.wait_for_function("[...document.images].every(image => image.complete)")
    at_rest(page)  # a box fades in


def turned(page: Page, theme: str, width: int) -> None:
    """The same page in another theme and width, as a reader's own switch does it, with its charts drawn anew."""
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function(FITTED)
    page.evaluate(TURN, theme)
    page.wait_for_function(DRAWN_IN, arg=theme)
    page.evaluate(LAID_OUT)
    at_rest(page)


def load_translator(page: Page) -> None:
    """Press the button of the page `live` and wait for the translator."""
    page.click(".live-load button")
    page.wait_for_selector(".live-text:not([hidden])", timeout=60_000)


def translated(page: Page, text: str | None = None) -> str:
    """What the page `live` writes for this text, or for the one that stands there."""
    if text is not None:
        page.fill("#live-text", text)
    page.evaluate("document.querySelector('.live-translation').textContent = ''")  # that of the text before
    page.click(".live-text [type=submit]")
    page.wait_for_function(TRANSLATED)
    return page.inner_text(".live-translation")


def assert_map_shows(page: Page, weights: Tensor) -> None:
    """In every cell of the large map stands a weight in percent."""
    cells = page.eval_on_selector_all(".live-large tbody td", "cells => cells.map(cell => Number(cell.textContent))")
    assert tensor(cells).view(weights.shape).sub(100 * weights).abs().max() <= 0.51


def thinned(page: Page, part: str, large: str = "pre, math") -> None:
    """Take away what is large beside a part of the page: axe reads the whole page before it looks at a part."""
    page.evaluate(
        """([part, large]) => [...document.querySelectorAll(large)]
          .filter(one => !one.closest(part) && !one.querySelector(part)).forEach(one => one.remove())""",
        [part, large],
    )


def alone(page: Page, part: str) -> None:
    """Leave a part of the page under its headings: the browser lays the whole page out anew when the part changes."""
    page.wait_for_function(SETTLED)  # no chart is being drawn
    thinned(page, part, "section > :not(section, h1, h2, h3, h4)")


def axe_findings(page: Page, selector: str | None = None, *rules: str) -> list[str]:
    """What axe finds on a page, or on a part of it, by these rules or all."""
    if not page.evaluate("'axe' in globalThis"):
        page.evaluate(AXE)
    return page.evaluate(FINDINGS, [selector, rules])


def rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def contrast(one: list[float], other: list[float]) -> float:
    """The ratio of WCAG 2: from 1 for the same colour to 21 for black on white."""
    linear = [[c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour] for colour in (one, other)]
    low, high = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in linear)
    return (high + 0.05) / (low + 0.05)


class Links(HTMLParser):
    """The ids of a page and the addresses it names."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"id", "name"} and value:
                self.ids.add(value)
            elif name in {"href", "src"} and value:
                self.targets.append(value)
