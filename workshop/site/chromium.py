"""The browser that opens built pages: where it is, how it starts, and when a page in it is whole."""

import os
import shutil

# True once the fonts and the pictures are there and every chart is drawn or has failed.
SETTLED = """async () => {
  await document.fonts.ready;
  return [...document.querySelectorAll('.vega-chart')].every(c => c.querySelector('svg.marks, canvas.marks, .error'))
    && [...document.images].every(image => image.complete);
}"""


def chromium() -> str | None:
    # The first is the same engine without windows, and takes a fifth less time.
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("CHROMIUM") or next((path for path in map(shutil.which, names) if path), None)


def find_browser() -> str:
    if (browser := chromium()) is None:
        raise SystemExit("make pdf needs Chromium or Chrome, and found neither; set CHROMIUM to the path of one")
    return browser
