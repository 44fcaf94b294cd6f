"""What cells print: a line that is wider than the page goes on below, indented; rows of columns stay as they are."""

import html
import re

from docutils import nodes
from sphinx.application import Sphinx

PRINTED = {"stream", "text_plain"}
ROW = re.compile(r"\S {2,}(?=\S).*\S {2,}\S|^\s*(?:tensor\(|array\()?\[.*\d")  # of three columns, or of an array
FEWEST = 2  # rows that are read down their columns
JOINT = re.compile(r"[a-z][,;:]? (?=[a-z])")  # of two words; a line with four is a sentence with padded numbers
IN_COLUMNS = re.compile(r"^\s|\S {2,}\S")  # a head or a row beside such rows


def folded(text: str) -> str:
    """The text in HTML, an element for each line; in a text with columns, their rows are of the class tabular."""
    lines = text.rstrip("\n").split("\n")
    has_columns = sum(bool(ROW.search(line)) and len(JOINT.findall(line)) < 4 for line in lines) >= FEWEST
    kinds = ["tabular" if has_columns and (ROW.search(line) or IN_COLUMNS.search(line)) else "line" for line in lines]
    folds = zip(kinds, lines, strict=True)
    return "".join(f'<span class="{kind}">{html.escape(line, quote=False)}\n</span>' for kind, line in folds)


def fold_outputs(_app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    for printed in list(doctree.findall(nodes.literal_block)):
        classes = printed["classes"]
        if "output" in classes and PRINTED & set(classes) and "\x1b" not in printed.astext():
            frame = f'<div class="{" ".join(classes)} notranslate"><div class="highlight"><pre>'
            printed.replace_self(nodes.raw("", f"{frame}{folded(printed.astext())}</pre></div></div>", format="html"))
