"""Formulas as MathML, set while a page is made: they stand at once, without scripts, and a screen reader reads them.

math-core knows every formula of the book. KaTeX and Temml know them, too, but need Node.js to make a page; what
latex2mathml writes for `aligned`, `\\tag` and growing brackets is wrong.
"""

import html
import re
from functools import cache
from typing import Any

from math_core import LatexError, LatexToMathML

from workshop.site.myst_blocks import Span, rewritten

TEXT = re.compile(r"(?<=>)[^<]+")
MARK = re.compile(r"[_*`|\[\]\\]")  # would be Markdown's
CONVERTER = LatexToMathML(fancy_error=False)


@cache
def mathml(tex: str, display: bool = False) -> str:
    """The formula as an element `math`, its number, `\\tag{1}`, at the right.

    Raises:
        ValueError: for what is no formula.
    """
    if display and "\\tag" in tex and "\\begin{equation}" not in tex:
        tex = f"\\begin{{equation}}{tex}\\end{{equation}}"
    try:
        return CONVERTER.convert_with_local_state(tex, displaystyle=display)
    except LatexError as error:
        raise ValueError(f"formula {tex!r}: {error}") from None


def formula_html(tex: str, display: bool = False) -> str:
    """The formula in a box of its own or in the line, with its source beside it, which the EPUB keeps."""
    tag = "div" if display else "span"
    source = html.escape(" ".join(tex.split()))
    return f'<{tag} class="math notranslate nohighlight" data-tex="{source}">{mathml(tex, display)}</{tag}>'


def visit(translator: Any, node: Any) -> None:
    """Write a formula of a page; one that cannot be set is a warning."""
    from docutils.nodes import SkipNode, math_block
    from sphinx.util.logging import getLogger

    display = isinstance(node, math_block)
    targets = "".join(f'<span id="{name}"></span>' for name in node.get("ids", ()))
    try:
        written = formula_html(node.astext(), display)
    except ValueError as error:
        getLogger(__name__).warning("%s", error, location=node)
        written = f"<code>{html.escape(node.astext())}</code>"
    translator.body.append(targets + written)
    raise SkipNode


def with_mathml(markdown: str) -> str:
    """Markdown with each formula set, but for those in scripts, which are data."""

    def new(span: Span) -> str | None:
        if span.rule != "math_inline":
            return None
        found = formula_html(span.token.content.strip(), display=span.token.markup == "$$")
        return TEXT.sub(lambda text: MARK.sub(lambda mark: f"&#{ord(mark[0])};", text[0]), found)

    parts = re.split("(<script.*?</script>)", markdown, flags=re.DOTALL)
    return "".join(part if part.startswith("<script") else rewritten(part, new) for part in parts)
