"""No line of a page ends within a number that is written with spaces: 90 %, (0, 1), 0.81 · 7 = 5.6."""

import re

from docutils import nodes
from sphinx.application import Sphinx

NUMBER = r"[+−-]?\d+(?:\.\d+)?"
SHORT = 20  # letters; what is longer must break on a phone
WHOLE = re.compile(rf"\({NUMBER}(?:, {NUMBER})+\)|{NUMBER}(?: [·=+−] {NUMBER})+|{NUMBER} %")
LEFT_ALONE = (nodes.literal, nodes.FixedTextElement, nodes.math, nodes.raw)


def unbroken(text: str) -> str:
    """The text with such spaces as ones that do not break."""
    return WHOLE.sub(lambda found: found[0].replace(" ", "\u00a0") if len(found[0]) <= SHORT else found[0], text)


def keep_together(app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    if app.builder.name != "html":
        return
    for text in list(doctree.findall(nodes.Text)):
        whole = unbroken(text.astext())
        if whole != text and not isinstance(text.parent, LEFT_ALONE):
            text.parent.replace(text, nodes.Text(whole))
