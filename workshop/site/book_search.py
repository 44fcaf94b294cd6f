"""The search: a word of the glossary is found there and where it is explained, and each result shows its passage.

Sphinx's own excerpts need the whole page of every result, some MB for a common word. A file for each page has its
passages as text; search_scorer.js loads it when the result comes into view.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx import addnodes
from sphinx.application import Sphinx

from workshop.site.book_head import plain_text
from workshop.site.book_layers import fold
from workshop.site.myst_blocks import inline_tokens
from workshop.site.plain_markdown import DEFINITION, whole_book

GLOSSARY = "glossary"
FOLDER = "_static/search"
PROSE = nodes.paragraph | nodes.caption | nodes.literal_block
Word = tuple[str, str, str]  # a word of the glossary, its place on a page, "main" where that page is the main one
Passage = tuple[str, str]  # the place on the page, its text


def definitions() -> Iterator[re.Match[str]]:
    """The entries of the glossary."""
    return DEFINITION.finditer(whole_book()[GLOSSARY].page.path.read_text("utf-8"))


@cache
def places() -> dict[str, list[Word]]:
    """Name of a page → the words that it explains; the page named first is the main one."""
    glossary, found = whole_book()[GLOSSARY], {}
    for entry in definitions():
        targets = [str(one.attrs["href"]) for one in inline_tokens(entry["text"]) if one.type == "link_open"]
        for target in targets:
            href = glossary.index.href(target) or f"{target.removesuffix('.md')}.html"
            page, _, place = href.partition("#")
            weight = "main" if target == targets[0] else ""
            words = found.setdefault(page.removesuffix(".html"), [])
            words += [(word, place, weight) for word in entry["term"].strip().split(", ")]
    return found


def unnamed(page: str, found: list[Passage]) -> list[Passage]:
    """The glossary's sentence for each word that a page explains and does not write: the search shows it there."""
    written = " ".join(text for _, text in found).lower()
    sentences = {entry["term"].strip(): entry["text"].partition(" [")[0] for entry in definitions()}
    words = [(word, place) for word, place, _ in places().get(page, []) if word in sentences]
    return [(place, f"{word}: {sentences[word]}") for word, place in words if word.lower() not in written]


def named_terms(glossary: nodes.document) -> list[Word]:
    """Give each term of the glossary a place of its own: the words with their places."""
    found = []
    for term in glossary.findall(nodes.term):
        place = f"word-{nodes.make_id(term.astext())}"
        term["ids"].append(place)
        found += [(word, place, "main") for word in term.astext().split(", ")]
    return found


def add_entries(app: Sphinx, doctree: nodes.document) -> None:
    """Put the words that a page explains into its index, for the page of the index and for the search."""
    folder, _, page = app.env.docname.rpartition("/")
    words = named_terms(doctree) if page == GLOSSARY else places().get(page, []) if folder == "book" else []
    if entries := [("single", *word, None) for word in words]:
        app.env.get_domain("index").data["entries"].setdefault(app.env.docname, []).extend(entries)
        doctree.insert(0, addnodes.index(entries=entries))


def texts(node: nodes.Node) -> Iterator[str]:
    """The passages of a paragraph, of HTML in the page, of a listing: of the first one, of the others many."""
    if isinstance(node, nodes.paragraph | nodes.caption):
        defined = f"{node.parent.parent[0].astext()}: " if isinstance(node.parent, nodes.definition) else ""
        yield defined + plain_text(node)
    elif isinstance(node, nodes.raw):
        if "html" in node.get("format", ""):
            yield from re.split(r"<[^>]*>", re.sub(r"(?s)<(script|style)\b.*?</\1>", "", node.astext()))
    else:
        yield from node.astext().splitlines()


def is_box(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Element) and "dropdown" in node["classes"]


def is_fold(node: nodes.Node) -> bool:
    """Whether a page shows one line for a part until a reader opens it."""
    return is_box(node) or isinstance(node, fold | HideCodeCellNode)


def has_place(node: nodes.Node) -> bool:
    """Whether the page writes the name of a place in a fold: the code of a cell and HTML have none of their own."""
    return is_box(node) or isinstance(node, PROSE | fold)


def name_folded(_app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    """Name the places in folds: a page opens the folds around the place that a link leads to."""
    folded = (one for part in doctree.findall(is_fold) for one in part.findall(has_place))
    for number, one in enumerate(dict.fromkeys(folded)):  # folds lie in folds
        one["ids"] = one["ids"] or [f"folded-{number}"]  # type: ignore[index]


def place_of(node: nodes.Node) -> str:
    """The last place that has a name, before a passage or its own."""
    while node is not None:
        if isinstance(node, nodes.definition):
            node = node.parent[0]
        if (has_place(node) or isinstance(node, nodes.term | nodes.section)) and node["ids"]:  # type: ignore[index]
            return node["ids"][0]  # type: ignore[index]
        node = node.parent
    return ""


def rank(node: nodes.Node) -> int:
    """Prose before what announces a chapter or an exercise, then HTML, code last."""
    if isinstance(node, nodes.raw | nodes.literal_block):
        return 2 + isinstance(node, nodes.literal_block)
    classes = [*node["classes"], *node.parent["classes"]]  # type: ignore[index]
    return int("task" in classes or "question" in classes)


def passages(doctree: nodes.document) -> list[Passage]:
    """The prose of a page with the place of each passage, and of all else what has a new word."""
    kinds = PROSE | nodes.raw
    found, known = [], set()
    for node in sorted(doctree.findall(lambda node: isinstance(node, kinds)), key=rank):
        for text in texts(node):
            words = set(re.findall(r"\w{2,}", text.lower()))
            if words - known if rank(node) else words:
                found.append((place_of(node), " ".join(text.split())))
                known |= words
    return found


def write_passages(app: Sphinx, page: str, _template: str, _context: dict[str, Any], doctree: nodes.document) -> None:
    """Write the file of a page; it calls the function that the search defines, so that it works without a server."""
    if doctree is not None and app.builder.name == "html":
        file = Path(app.outdir, FOLDER, f"{page}.js")
        file.parent.mkdir(parents=True, exist_ok=True)
        found = passages(doctree)
        found += unnamed(page.rpartition("/")[2], found)
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        file.write_text(f"Search.show({json.dumps(page)},{text});\n", "utf-8")


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", add_entries)
    app.connect("doctree-resolved", name_folded, priority=900)  # when all folds have been made
    app.connect("html-page-context", write_passages)
