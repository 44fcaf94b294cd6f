"""The pages of the API, which Sphinx's autodoc and napoleon make from the docstrings, and the links that lead there.

A docstring is plain text. Two things become reStructuredText here: an equation, which is an indented block, stays as it
is written; an id of the paper, as in `[eq-1]`, links to the section that explains it.
"""

import functools
import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.directives.code import LiteralInclude

ID = re.compile(r"\[([a-z][a-z0-9-]*)\](?!_)")
MODULE = re.compile(r"(transformer_lib(?:/\w+)+)\.py$")
OPTIONS = {"members": True, "member-order": "bysource", "no-value": True}
SIGNATURE = re.compile(r"<dt class=\"sig .*?</dt>", re.DOTALL)
LINES = {
    "<dl>": '<span class="sig-lines">',
    "<dd>": '<span class="sig-line">',
    "</dl>": "</span>",
    "</dd>": "</span>",
}


def prepare(_app: Sphinx, _what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Make a docstring reStructuredText, before napoleon reads its sections."""
    prepared: list[str] = []
    equation = False
    for line in lines:
        indented = line.startswith("    ")
        if indented and prepared and not prepared[-1].strip():
            equation = True
            prepared += ["::", ""]
        equation = equation and (indented or not line)
        if not equation:
            line = line.replace("|", r"\|")  # noqa: PLW2901
            line = ID.sub(r"[:ref:`\1 <\1>`]", line) if "Source:" in line else line  # noqa: PLW2901
        prepared.append(line)
    lines[:] = prepared


def plain_lines(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Write a signature of several lines as lines; Sphinx makes it a list of definitions that defines nothing."""

    def with_lines(signature: re.Match[str]) -> str:
        return functools.reduce(lambda text, tags: text.replace(*tags), LINES.items(), signature[0])

    if "body" in context:
        context["body"] = SIGNATURE.sub(with_lines, context["body"])


class LinkedListing(LiteralInclude):
    """A listing whose caption, the file of the library, links to what the API says of the definition."""

    def run(self) -> list[nodes.Node]:
        result = super().run()
        module, name = MODULE.search(self.arguments[0]), self.options.get("pyobject")
        if not module or not name:
            return result
        target = f"{module[1].replace('/', '.')}.{name}"
        for caption in (caption for node in result for caption in node.findall(nodes.caption)):
            words = nodes.inline("", "", *caption.children)
            link = addnodes.pending_xref("", words, refdomain="py", reftype="obj", reftarget=target, refexplicit=True)
            caption.children = []
            caption.append(link)
        return result


def setup(app: Sphinx) -> dict[str, Any]:
    app.setup_extension("sphinx.ext.autodoc")
    app.config.autodoc_default_options = OPTIONS
    # Before napoleon.
    app.connect("autodoc-process-docstring", prepare, priority=100)
    app.setup_extension("sphinx.ext.napoleon")
    app.connect("html-page-context", plain_lines)
    app.add_directive("literalinclude", LinkedListing, override=True)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
