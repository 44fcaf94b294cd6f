"""Formulas: each of the book can be set, its signs are in the font, and a page shows them without scripts."""

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest
from browser import ROOT
from fontTools.ttLib import TTFont

from workshop.site import formulas
from workshop.site.book_index import pages_in_order, read_page
from workshop.site.myst_blocks import inline_tokens, walk

FONT = ROOT / "book" / "_static" / "fonts" / "stix-two-math.woff"
# A browser turns a single letter in `mi` into its italic form.
ITALIC = {chr(ord("a") + i): chr(0x1D44E + i) for i in range(26)} | {
    chr(ord("A") + i): chr(0x1D434 + i) for i in range(26)
}
ITALIC |= {"h": "ℎ"} | {chr(ord("α") + i): chr(0x1D6FC + i) for i in range(25)}
UNSEEN = {"\u2061", "\u2062", "\u2063", "\u200b", "\u2002", "\u2003", "\xa0", " ", "\n"}


def formulas_of_the_book() -> Iterator[tuple[str, bool]]:
    for path in pages_in_order(ROOT):
        for block in walk(read_page(path).blocks):
            text = block.text if block.kind == "text" else block.argument
            for token in inline_tokens("" if block.name in {"code-cell", "literalinclude"} else text):
                if token.type.startswith("math_inline"):
                    yield token.content.strip(), token.markup == "$$"


def letters(mathml: str) -> set[str]:
    """The characters that a browser draws for a formula."""
    single = {html.unescape(one) for one in re.findall(r"<mi>([^<]|&\w+;)</mi>", mathml)}
    return set(html.unescape(re.sub(r"<[^>]+>", "", mathml))) | {ITALIC.get(one, one) for one in single}


def test_every_formula_of_the_book_can_be_set_and_its_signs_are_in_the_font() -> None:
    font: Any = TTFont(FONT)
    glyphs = font.getBestCmap()
    known, found = set(map(chr, glyphs)), set(formulas_of_the_book())
    assert len(found) > 500
    used = set().union(*(letters(formulas.mathml(*one)) for one in found))
    assert used - known - UNSEEN == set()
    grows = font["MATH"].table.MathVariants.VertGlyphCoverage.glyphs
    assert {glyphs[ord(sign)] for sign in "()[]{}|√"} <= {*grows}, "brackets and roots grow by this table"


def test_a_number_stands_in_its_formula_and_what_is_no_formula_is_named() -> None:
    numbered = formulas.mathml(r"y = \sqrt{x} \tag{7}", display=True)
    assert re.search(r"<mtext>\(7\)</mtext></mtd></mtr></mtable></math>$", numbered)
    assert "stretchy" not in formulas.mathml(r"\left(\frac{a}{b}\right)"), "a bracket grows unless told not to"
    with pytest.raises(ValueError, match="nonsense"):
        formulas.mathml(r"\nonsense")
