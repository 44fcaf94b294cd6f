"""The three places that compute in a page, before and while they load: the translator, the stepper, the training.

Needs `make book` and Chromium, as conftest.py says.
"""

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import ROOT, SITE
from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.slow

RUNTIME = ("live/onnxruntime.js", "vendor/onnxruntime/ort.wasm.min.js")
# Scripts beside the pages' own: what the build writes.
PAYLOADS = [path.name for path in (SITE / "_static" / "live").glob("*.js")]
PAYLOADS = [name for name in PAYLOADS if not (ROOT / "book" / "_static" / "live" / name).exists()]


@dataclass
class Place:
    page: str
    part: str
    bench: str  # shown once it is loaded
    goes: str  # the same, once it works
    files: tuple[str, ...]  # what its button loads

    @property
    def button(self) -> str:
        return f"{self.part} .live-load button"

    def press(self, page: Page, says: str) -> None:
        """Ask for the files, in vain."""
        page.click(self.button)
        page.wait_for_selector(f"{self.part} .live-status:text('{says}')")

    def load(self, page: Page) -> None:
        page.click(self.button)
        page.wait_for_selector(f"{self.part} {self.goes}", timeout=60_000)


LIVE = Place("live", "#live-translator", ".live-text", "#live-text", ("live/number_words_en_de.js", *RUNTIME))
STEPPER = Place("encoder_decoder", "#live-stepper", ".live-bench", ".live-bench", ("live/forward_trace.js",))
STEPS = '.live-figures:text-matches("^step ([2-9]|[0-9]{2})")'
TRAINING = Place("index", "#live-training", ".live-bench", STEPS, ("live/training.js", *RUNTIME))


def size(*files: str) -> int:
    """The bytes on the wire."""
    return sum(len(gzip.compress((SITE / "_static" / file).read_bytes(), 6)) for file in files)


def megabytes(*files: str) -> str:
    """The same as a reader sees it, in one unit everywhere."""
    found = size(*files) / 1e6
    return f"{found:.{2 if found < 0.1 else 1}f} MB"


def go(page: Page, origins: dict[str, str], place: Place) -> None:
    """Open the page of a place: nothing is loaded before it is asked for, and the button says how much it will be."""
    page.goto(f"{origins['http']}book/{place.page}.html", wait_until="load")
    urls = page.evaluate("performance.getEntriesByType('resource').map(entry => entry.name.split('?')[0])")
    assert {Path(file).name for file in place.files} <= {*PAYLOADS, "ort.wasm.min.js"}
    assert [url for url in urls if url.endswith((*PAYLOADS, "ort.wasm.min.js", ".onnx.gz", ".wasm"))] == []
    assert any("/live/runtime.js" in url for url in urls)
    assert megabytes(*place.files) in page.inner_text(place.button)
    assert size(STEPPER.files[0]) < 100_000
    assert page.is_hidden(f"{place.part} {place.bench}")


@pytest.mark.parametrize("place", [LIVE, pytest.param(TRAINING, marks=pytest.mark.deep)], ids=lambda place: place.page)
def test_a_browser_that_cannot_run_the_model_is_told_so(page: Page, origins: dict[str, str], place: Place) -> None:
    go(page, origins, place)
    for lacks, says in (
        ("DecompressionStream", "Use one from 2023"),
        ("WebAssembly", "is switched off in this browser"),
    ):
        page.evaluate(f"() => {{ globalThis.kept = {lacks}; delete globalThis.{lacks}; }}")
        place.press(page, says)
        page.evaluate(f"() => {{ globalThis.{lacks} = kept; }}")
    place.load(page)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (STEPPER, STEPPER.files[0]),
        *(pytest.param(LIVE, path, marks=pytest.mark.deep) for path in LIVE.files),
        pytest.param(TRAINING, TRAINING.files[0], marks=pytest.mark.deep),
    ],
)
def test_a_file_that_arrives_short_or_not_at_all_is_named_and_the_next_try_loads_it(
    page: Page, origins: dict[str, str], place: Place, path: str
) -> None:
    half = (SITE / "_static" / path).read_bytes()
    missing = re.compile(rf"{path}\?")  # the second try has another address
    # A cache on the way that kept half of the file gives it again, for this address.
    page.route(re.compile(rf"{path}$"), lambda route: route.fulfill(body=half[: len(half) // 2]))
    page.route(missing, lambda route: route.abort())
    go(page, origins, place)
    for _ in range(2):
        place.press(page, f"{Path(path).name} did not arrive whole. Check the connection and press again.")
    page.unroute(missing)
    place.load(page)


# Keeps what the bar of a place shows; null while it cannot say how far it is.
WATCHED = """part => {
  globalThis.shares = [];
  const bar = document.querySelector(`${part} .live-loading`);
  const keep = () => shares.push(bar.hasAttribute('value') ? bar.value : null);
  new MutationObserver(keep).observe(bar, { attributes: true });
}"""


@pytest.mark.parametrize("place", [LIVE, TRAINING], ids=lambda place: place.page)
def test_on_a_slow_line_a_bar_goes_to_its_end(
    context: BrowserContext, page: Page, origins: dict[str, str], place: Place
) -> None:
    go(page, origins, place)
    line = context.new_cdp_session(page)
    line.send("Network.enable")
    line.send("Network.setCacheDisabled", {"cacheDisabled": True})
    speed = {"offline": False, "latency": 50, "downloadThroughput": 4_000_000, "uploadThroughput": 100_000}
    line.send("Network.emulateNetworkConditions", speed)
    bar = f"{place.part} .live-loading"
    page.route(re.compile(RUNTIME[0]), lambda route: route.abort())
    place.press(page, "Check the connection and press again.")
    assert page.is_hidden(bar)
    page.unroute(re.compile(RUNTIME[0]))
    page.evaluate(WATCHED, place.part)
    place.load(page)
    shares = page.evaluate("shares.filter(share => share !== null)")
    assert len(set(shares)) > 3
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert page.is_hidden(bar)
