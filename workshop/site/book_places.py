"""The places that compute in the reader's browser, by one pattern: an HTML, its styles and scripts, and payloads.

The repository holds exported models and the runtime as they come. A page opened from a file may load scripts but may
not fetch, so the build writes each payload as a script, compressed and in letters: one way for servers and files. It is
loaded on request.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from workshop.site import book_first, book_live, book_stepper, book_stops, book_training

# Each has page_html(static, [kind]), payloads(), the SOURCES that it is made from, and the FILES that its page loads.
PLACES: dict[str, Any] = {
    "live-translator": book_live,
    "live-training": book_training,
    "live-stepper": book_stepper,
    "first-numbers": book_first,
    "head-by-hand": book_stops.HEAD,
    "places-of-words": book_stops.PLACES,
    "learning-and-writing": book_stops.WRITING,
    "what-gpt-keeps": book_stops.KEEPS,
}


class Live(SphinxDirective):
    """`{live-translator}`, `{live-stepper}` and `{live-training} whole`: the place; the notebooks link to it."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        place = PLACES[self.name]
        for file in place.SOURCES:
            self.env.note_dependency(str(file))
        static = "../" * self.env.docname.count("/") + "_static/"
        return [nodes.raw("", place.page_html(static, *self.arguments), format="html")]


def write_payloads(site: Path) -> None:
    """Write the scripts that are loaded on request: translators, the steps of training, the trace of a forward pass."""
    folder = site / "_static" / "live"
    folder.mkdir(parents=True, exist_ok=True)
    for place in PLACES.values():
        for name, text in place.payloads().items():
            (folder / f"{name}.js").write_text(text, "utf-8")
