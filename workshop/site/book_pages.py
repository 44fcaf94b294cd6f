"""The finished HTML: repair what the theme gets wrong."""

import re
from pathlib import Path

from workshop.site import book_weight

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


def repaired(page: str) -> str:
    for pattern, replacement in REPAIRS:
        page = pattern.sub(replacement, page)
    return page


def finish(site: Path) -> None:
    for file in book_weight.pages_of(site):
        file.write_text(repaired(book_weight.with_sizes(file.read_text("utf-8"), file.parent)), "utf-8")
