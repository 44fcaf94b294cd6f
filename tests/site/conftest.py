"""The built site and a browser. Needs `make book` and Chromium.

Without one of them the tests are skipped; TRANSFORMER_LIB_REQUIRE_BROWSER=1 turns that into a failure. CHROMIUM names
the browser where it is not found.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import SITE, served
from needs import unavailable
from playwright.sync_api import BrowserContext, Page, sync_playwright

from workshop.site import book_charts, book_layers
from workshop.site.chromium import chromium


@pytest.fixture(scope="module")
def site() -> Path:
    if not (SITE / "index.html").exists():
        unavailable("the site is not built: run `make book` first")
    return SITE


@pytest.fixture(scope="module")
def origins(site: Path) -> Iterator[dict[str, str]]:
    """The site as a server gives it and as files."""
    with served(site) as origin:
        yield {"http": origin, "file": f"{site.as_uri()}/"}


# Of a module, not of the session: Playwright's event loop would stand in the way of other tests that have their own.
@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser with a fresh profile."""
    path = chromium()
    if path is None:
        unavailable("Chromium is not installed: the pages cannot be opened")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=path,
            viewport={"width": 1280, "height": 900},
            # A process for each page takes longer than the page. And the runtime of the models is compiled quickly, and
            # not anew for speed: a test computes little.
            args=["--process-per-site", "--js-flags=--wasm-tiering-budget=1800000000"],
        )
        context.set_default_timeout(120_000)  # beside other work a page takes its time
        [kept] = context.pages  # and with it the process of its site
        kept.route("**", lambda route: route.fulfill(body=""))
        kept.goto("http://127.0.0.1/")
        yield context
        context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    yield page
    page.close()


@pytest.fixture(scope="module")
def silent(context: BrowserContext) -> Iterator[Page]:
    """A page that runs no scripts."""
    page = context.new_page()
    context.new_cdp_session(page).send("Emulation.setScriptExecutionDisabled", {"value": True})
    yield page
    page.close()


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the local extension warns of; a warning fails a strict build."""
    seen: list[str] = []

    def warn(message: str, *values: object, location: object = None) -> None:
        seen.append(message % values if values else message)

    for module in (book_charts, book_layers):
        monkeypatch.setattr(module.LOGGER, "warning", warn)
    return seen
