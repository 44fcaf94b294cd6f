"""The finished HTML: repair what the theme gets wrong, and refuse what another host would have to serve."""

import re
from pathlib import Path

from sphinx.util import logging

from workshop.site import book_weight

LOGGER = logging.getLogger(__name__)

# What the theme writes, what should stand there, and why.
REPAIRS = (
    # Two labels on one button, one of them for the search field.
    (re.compile(r'(<button class="btn search-button-field[^>]*?) title="Search" aria-label="Search"'), r"\1"),
    # The label hides the visible text of the summary from a screen reader.
    (re.compile(r'<summary aria-label="Toggle hidden content">'), "<summary>"),
    # A list without list items; an item role outside its context.
    (re.compile(r'<div role="list" class="citation-list">'), '<div class="citation-list">'),
    (re.compile(r' role="doc-biblioentry"'), ""),
    # A sidebar that is no landmark.
    (re.compile(r'(<div id="pst-primary-sidebar")'), r'\1 role="complementary" aria-label="Book"'),
    # Icons that repeat the label of their button.
    (re.compile(r'(data-mode="(?:light|dark|auto)")\s+title="[^"]*"'), r'\1 aria-hidden="true"'),
    # An icon of a font is a letter, which a screen reader may try to say.
    (
        re.compile(r'<(i|span) class="(fa[srb]? fa-[\w -]+|fa-solid [\w -]+)"></\1>'),
        r'<\1 class="\2" aria-hidden="true"></\1>',
    ),
)
FOREIGN = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*?\bsrc=[\"']?(?:https?:)?//[^\s\"'>]+"
    r"|<link\b(?=[^>]*rel=[\"']?(?:stylesheet|preload|icon|modulepreload))[^>]*?\bhref=[\"']?(?:https?:)?//[^\s\"'>]+"
    r"|cdn\.jsdelivr\.net/npm/[\w@./-]+",
    re.IGNORECASE,
)


def repaired(page: str) -> str:
    for pattern, replacement in REPAIRS:
        page = pattern.sub(replacement, page)
    return page


def finish(site: Path) -> None:
    """Lighten and repair every page, and warn of one that loads something from another host."""
    for file in book_weight.pages_of(site):
        page = repaired(book_weight.with_sizes(file.read_text("utf-8"), file.parent))
        file.write_text(page, "utf-8")
        if match := FOREIGN.search(page):
            LOGGER.warning("%s: loads from another host: %s", file.relative_to(site), match[0])
