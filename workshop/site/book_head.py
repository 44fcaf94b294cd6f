"""The head of a page: what a search engine, or a message with a link, shows of the page.

The description is read from the question box at the top of a chapter, or its first paragraph, so that it cannot go
stale. Addresses derive from `repository` in _config.yml. sphinxext-opengraph would replace head_tags.html alone: its
description skips boxes, and so the question; it cuts within a word, and leaves out the search page and the index.
"""

import html
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from workshop.site.address import configured
from workshop.site.filled import filled

LONGEST = 160
OPENING = "You will be able to "
# Pages that no chapter writes.
DESCRIPTIONS = {
    "search": "Search The Executable Transformer: its equations, functions, experiments, exercises and terms.",
    "genindex": "The index of The Executable Transformer: the terms that chapters define, and where they do.",
}
TEX = (
    (re.compile(r"\\sqrt\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}"), r"√\1"),
    (re.compile(r"\\(?:text|mathrm|operatorname)\{([^{}]*)\}"), r"\1"),
    (re.compile(r"-\\infty"), "−∞"),
    (re.compile(r"\\infty"), "∞"),
    (re.compile(r"\\times"), "×"),
    (re.compile(r"[{}]"), ""),
)


def plain_formula(tex: str) -> str:
    """A short formula as one line of text, √d_k for one."""
    for pattern, replacement in TEX:
        tex = pattern.sub(replacement, tex)
    return tex


def plain_text(node: nodes.Node) -> str:
    """The words of a node, formulas as text."""
    if isinstance(node, nodes.math):
        return plain_formula(node.astext())
    if isinstance(node, nodes.Text):
        return node.astext()
    return "".join(plain_text(child) for child in node.children)


def shorten(text: str) -> str:
    """At most LONGEST characters: whole clauses where they are long enough, else whole words and an ellipsis."""
    text = " ".join(text.split())
    if len(text) <= LONGEST:
        return text
    for mark in (r"\. ", "; ", ": ", r"(?<!\d), "):  # not inside "1, 8 or 32"
        cuts = [match.start() for match in re.finditer(mark, text[:LONGEST])]
        if cuts and cuts[-1] >= LONGEST * 2 // 3:
            return text[: cuts[-1]] + "."
    return text[: LONGEST - 1].rsplit(" ", 1)[0].rstrip(",;:. ") + "…"


def question_of(doctree: nodes.document) -> tuple[str, str]:
    """The question of a chapter's first box and what its reader will be able to do; empty where it has no box."""
    for box in doctree.findall(nodes.admonition):
        if "question" in box["classes"]:
            title = next(iter(box.findall(nodes.title)), None)
            first = next(iter(box.findall(nodes.paragraph)), None)
            return (plain_text(title) if title else "", plain_text(first) if first else "")
    return "", ""


def description_of(doctree: nodes.document) -> str:
    """One or two sentences on a page, from the page."""
    question, able = question_of(doctree)
    if question:
        able = able.removeprefix(OPENING)
        return shorten(f"{question} {able[:1].upper()}{able[1:]}")
    paragraphs = (plain_text(node) for node in doctree.findall(nodes.paragraph))
    return shorten(" ".join(next(paragraphs, "").replace(" ,", ",").split()))


def add_tags(app: Sphinx, page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Describe the page in its head."""
    if doctree is None and page not in DESCRIPTIONS:
        return
    description = DESCRIPTIONS.get(page) or description_of(doctree)  # type: ignore[arg-type]
    title = re.sub(r"<[^>]*>", "", html.unescape(context.get("title") or app.config.html_title))
    context["metatags"] = context.get("metatags", "") + filled(
        "head_tags.html",
        title=title,
        description=description,
        home=configured(Path(app.srcdir)).home,
        page=page,
        site_name=app.config.html_title,
    )
