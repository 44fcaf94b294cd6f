"""The built site in a browser: nothing from another host, nothing on the console, every formula and chart drawn.

Needs `make book` and Chromium. Without one of them the tests are skipped; TRANSFORMER_LIB_REQUIRE_BROWSER=1 turns
that into a failure. CHROMIUM names the browser where it is not found.
"""

import functools
import http.server
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

from workshop.site.address import configured
from workshop.site.book_index import pages_in_order

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
CHAPTERS = [path.relative_to(ROOT).with_suffix(".html").as_posix() for path in pages_in_order(ROOT)]
HOME = urlsplit(configured().home).path
PAGES = [*CHAPTERS, "search.html", "genindex.html"]
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# True once MathJax has finished and every chart is drawn or has failed.
SETTLED = """async () => {
  if (window.MathJax?.startup?.promise) await MathJax.startup.promise;
  return [...document.querySelectorAll('.vega-chart')].every(c => c.querySelector('svg.marks, canvas.marks, .error'));
}"""
FACTS = """() => ({
  formulas: document.querySelectorAll('.math.notranslate').length,
  typeset: [...document.querySelectorAll('.math.notranslate')].filter(m => m.querySelector('mjx-container')).length,
  spoken: [...document.querySelectorAll('.math.notranslate')].filter(m => m.querySelector('mjx-assistive-mml')).length,
  loose: [...document.querySelectorAll('span.math')].map(m => m.nextSibling)
    .filter(next => next?.nodeType === Node.TEXT_NODE && /^[.,;:]/.test(next.data)
      && getComputedStyle(next.parentElement).whiteSpace !== 'nowrap').map(next => next.data),
  formulaErrors: [...document.querySelectorAll('mjx-merror')].map(e => e.textContent),
  charts: document.querySelectorAll('.vega-chart').length,
  drawn: document.querySelectorAll('.vega-chart svg.marks, .vega-chart canvas.marks').length,
  unnamed: [...document.querySelectorAll('.vega-chart')].filter(c => !c.querySelector('[aria-label]')).length,
  chartErrors: [...document.querySelectorAll('.vega-chart .error')].map(e => e.textContent),
  pictures: [...document.images].filter(i => !i.complete || !i.naturalWidth || !i.alt).map(i => i.outerHTML),
  theme: document.documentElement.dataset.theme,
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
})"""


def unavailable(reason: str) -> None:
    """Skip, or fail where the browser tests must run."""
    if os.environ.get("TRANSFORMER_LIB_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("CHROMIUM") or next((path for path in map(shutil.which, names) if path), None)


@pytest.fixture(scope="module")
def site() -> Path:
    if not (SITE / "index.html").exists():
        unavailable("the site is not built: run `make book` first")
    return SITE


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def origins(site: Path) -> Iterator[dict[str, str]]:
    """The site as a server gives it and as files."""
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield {"http": f"http://127.0.0.1:{server.server_port}/", "file": f"{site.as_uri()}/"}
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def context(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser with a fresh profile."""
    path = chromium()
    if path is None:
        unavailable("Chromium is not installed: the pages cannot be opened")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=path,
            args=CHROMIUM_ARGUMENTS,
            viewport={"width": 1280, "height": 900},
        )
        yield context
        context.close()


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


def opened(page: Page, url: str, theme: str) -> dict[str, Any]:
    """Open a page in a theme, wait until it is drawn, and say what is on it."""
    page.add_init_script(f"for (const key of ['mode', 'theme']) localStorage.setItem(key, '{theme}');")
    page.goto(url, wait_until="load")
    page.wait_for_function(SETTLED, timeout=20_000)
    # Formulas and pictures in closed boxes count too.
    page.evaluate("document.querySelectorAll('details').forEach(box => { box.open = true; })")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.wait_for_function("[...document.images].every(image => image.complete)", timeout=20_000)
    return page.evaluate(FACTS)


VIEWS = [("http", "light", 1280), ("http", "dark", 390), ("file", "light", 1280)]


@pytest.mark.parametrize(("kind", "theme", "width"), VIEWS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_whole_and_quietly(
    context: BrowserContext, origins: dict[str, str], name: str, kind: str, theme: str, width: int
) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    faults = recorded(page, origins[kind])
    facts = opened(page, origins[kind] + name, theme)
    page.close()
    assert faults == []
    assert facts["typeset"] == facts["formulas"]
    assert facts["spoken"] == facts["formulas"], "a formula that a screen reader cannot read"
    assert facts["loose"] == [], "a comma that may stand at the beginning of a line"
    assert facts["formulaErrors"] == []
    assert facts["drawn"] == facts["charts"]
    assert facts["chartErrors"] == []
    assert facts["unnamed"] == 0, "a chart without a name for screen readers"
    assert facts["pictures"] == [], "pictures that are missing or have no alt text"
    assert facts["theme"] == theme
    assert facts["overflow"] <= 0, f"the page is wider than a screen of {width} pixels"


# ── Links ─────────────────────────────────────────────────────────────────────────────────────────────────────


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


@pytest.fixture(scope="module")
def parsed(site: Path) -> dict[Path, Links]:
    found = {}
    for path in site.rglob("*.html"):
        if "_static" not in path.parts:
            found[path] = Links()
            found[path].feed(path.read_text("utf-8"))
    return found


def broken(path: Path, target: str, parsed: dict[Path, Links]) -> bool:
    """Whether a link from the page at `path` leads nowhere on the site."""
    address, anchor = urldefrag(target)
    if address.startswith(HOME):  # 404.html, which is shown at any depth
        path, address = SITE / "404.html", address.removeprefix(HOME)
    file = (path.parent / unquote(urlsplit(address).path)).resolve() if address else path
    if file.is_dir():
        file /= "index.html"
    if not file.exists():
        return True
    return bool(anchor) and file in parsed and unquote(anchor) not in parsed[file].ids


def test_every_link_inside_the_site_leads_somewhere(parsed: dict[Path, Links]) -> None:
    nowhere = [
        f"{path.relative_to(SITE)} → {target}"
        for path, links in parsed.items()
        for target in links.targets
        if not urlsplit(target).scheme and target not in {"#", ""} and broken(path, target, parsed)
    ]
    assert nowhere == []


def test_colab_links_name_notebooks_that_exist(parsed: dict[Path, Links]) -> None:
    start = configured().colab("")
    executed = 0
    for path, links in parsed.items():
        for target in (target for target in links.targets if "colab.research" in target):
            assert target.startswith(start), f"{path.name}: {target}"
            assert (ROOT / target.removeprefix(start)).exists(), f"{path.name}: {target}"
            executed += 1
    sources = [path.read_text("utf-8") for path in pages_in_order(ROOT)]
    assert executed >= sum("{code-cell}" in source for source in sources) > 0


def test_links_of_the_notebooks_lead_to_the_site(parsed: dict[Path, Links]) -> None:
    start = configured().site
    nowhere = []
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        text = "\n".join("".join(cell["source"]) for cell in json.loads(notebook.read_text("utf-8"))["cells"])
        for target in re.findall(rf"\({re.escape(start)}([^)\s]*)\)", text):
            if broken(SITE / "book" / "index.html", target, parsed):
                nowhere.append(f"{notebook.name} → {target}")
    assert nowhere == []
