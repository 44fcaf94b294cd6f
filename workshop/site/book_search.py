"""The search finds a word of the glossary where it is explained: each word is an entry of the index on that page."""

from functools import cache

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from workshop.site.myst_blocks import spans
from workshop.site.plain_markdown import DEFINITION, whole_book

GLOSSARY = "glossary"


@cache
def places() -> dict[str, list[tuple[str, str]]]:
    """Name of a page → the words that it explains, each with the place on it."""
    glossary, found = whole_book()[GLOSSARY], {}
    text = glossary.page.path.read_text("utf-8")
    for entry in DEFINITION.finditer(text):
        links = (entry["text"][span.start + 2 : span.end - 1] for span in spans(entry["text"]) if span.rule == "link")
        if target := next(links, ""):
            href = glossary.index.href(target) or f"{target.removesuffix('.md')}.html"
            page, _, place = href.partition("#")
            found.setdefault(page.removesuffix(".html"), []).append((entry["term"].strip(), place))
    return found


def add_entries(app: Sphinx, doctree: nodes.document) -> None:
    """Put the words that a page explains into its index, for the page of the index and for the search."""
    name = app.env.docname
    words = places().get(name.rpartition("/")[2], []) if name.startswith("book/") else []
    if entries := [("single", word, place, "main", None) for word, place in words]:
        app.env.get_domain("index").data["entries"].setdefault(name, []).extend(entries)
        doctree.insert(0, addnodes.index(entries=entries))
