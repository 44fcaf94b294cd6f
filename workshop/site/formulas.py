"""Formulas as MathML, set while a page is made: they stand at once, without scripts, and a screen reader reads them.

math-core knows every formula of the book. KaTeX and Temml know them, too, but need Node.js to make a page; what
latex2mathml writes for `aligned`, `\\tag` and growing brackets is wrong.
"""

import html
from functools import cache
from typing import Any

from math_core import LatexError, LatexToMathML

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
