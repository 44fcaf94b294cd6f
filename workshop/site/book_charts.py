"""Charts and pictures: drawn from local scripts only, and never without a description."""

import html
import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from workshop.site.plain_markdown import drawn

LOGGER = logging.getLogger(__name__)
VEGA = ("vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-embed.min.js")
SCRIPTS = (*VEGA, "book-chart-colours.js", "book-chart-data.js", "book-chart-tables.js", "book-charts.js")


def altair_spec(source: str) -> dict[str, Any] | None:
    """The Vega-Lite specification inside the HTML that Altair writes for a chart; None for any other HTML.

    Altair's HTML is a function that loads Vega from a public host, applied to the specification:
    `(function(spec, embedOpt){…})({…}, {…});`.
    """
    start = source.find("})({", source.find("vegaEmbed("))
    if "vegaEmbed(" not in source or start < 0:
        return None
    spec, _ = json.JSONDecoder().raw_decode(source, start + len("})("))
    return spec


def chart_html(spec: dict[str, Any]) -> str:
    """A place for the chart with its specification in it; book-charts.js draws it."""
    text = json.dumps(spec, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = text.replace("</", r"<\/").replace("<!--", r"<\u0021--")
    fallback = f"<noscript>{html.escape(spec['description'])}</noscript>"
    return f'<div class="vega-chart"><script type="application/json">{data}</script>{fallback}</div>'


def embed_charts(_app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    """Replace Altair's HTML, which loads scripts from a public host, by our own; ask for a description."""
    for node in list(doctree.findall(nodes.raw)):
        spec = altair_spec(node.astext()) if "html" in node.get("format", "").split() else None
        if spec is None:
            continue
        if not str(spec.get("description", "")).strip():
            LOGGER.warning("chart without a description: add .properties(description=…) to the whole", location=node)
            spec["description"] = "Chart"
        try:
            text = chart_html(spec)
        except ValueError:
            LOGGER.warning("chart with NaN or infinity in its data: browsers cannot read it", location=node)
            continue
        node.replace_self(nodes.raw("", text, format="html"))


def embed_drawings(app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    """Put a drawing itself into the page: only there does it follow the theme, and its words scale with the text."""
    for image in list(doctree.findall(nodes.image)):
        path = Path(app.srcdir, image["uri"])
        if drawn(path):
            image.replace_self(nodes.raw("", path.read_text("utf-8"), format="html"))


def check_pictures(_app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    """Ask for a text beside every picture, drawn by a cell or read from a file."""
    for image in doctree.findall(nodes.image):
        alt = image.get("alt", "").strip()
        if not alt or alt == image["uri"] or alt == Path(image["uri"]).name:
            LOGGER.warning(
                "picture without alt text: give it :alt:, or a cell the option mystnb: image: alt:",
                location=image,
            )
