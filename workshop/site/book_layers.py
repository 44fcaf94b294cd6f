"""A page in three layers: argument, always open; code, one line each on a phone; evidence, folded as *How we know*.

Evidence is what stands in `{how-we-know}`, a cell with the tag or a listing with the class `evidence`, and the section
*The test*. Each section gets one fold for all of its evidence, at its end. In the HTML every fold of this module is
open, for readers without scripts and for print; book-layers.js closes them, and its switch opens all.
"""

from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.nodes import traverse_parent
from sphinx_exercise.nodes import exercise_enumerable_node, exercise_node

from workshop.site.book_folds import DEFINED, names_in

LOGGER = logging.getLogger(__name__)
FEWEST = 4  # lines of code: fewer are shorter than the line that would stand for them
PROOF = "The test"  # the section of a chapter that proves its function
SWITCH = '<p class="layers" hidden><label><input type="checkbox"> Show code and checks</label></p>'


class fold(nodes.General, nodes.Element):
    """A part of a page that can be closed; its class is its kind, `words` the line that stands for it."""


def visit_fold(translator: Any, node: fold) -> None:
    start = translator.starttag(node, "details", open="open")
    translator.body.append(f"{start}<summary>{translator.encode(node['words'])}</summary>\n")


def depart_fold(translator: Any, _node: fold) -> None:
    translator.body.append("</details>\n")


# Where code is no fold of its own: in another fold, and in an exercise, whose question it is.
AS_IT_IS = fold, HideCodeCellNode, exercise_node, exercise_enumerable_node


def proofs_as_evidence(doctree: nodes.document) -> None:
    """Let each section *The test* become evidence of the section before it."""
    for proof in [one for one in doctree.findall(nodes.section) if one[0].astext() == PROOF]:
        before = proof.parent[proof.parent.index(proof) - 1]
        evidence = nodes.container("", *proof[1:], classes=["evidence"], ids=proof["ids"])
        proof.parent.remove(proof)
        (before if isinstance(before, nodes.section) else proof.parent).append(evidence)


def is_evidence(node: nodes.Node) -> bool:
    """Whether a part of a section says that it is evidence; a listing says it inside its wrapper."""
    if not isinstance(node, nodes.container):
        return False
    inner = node.next_node(nodes.literal_block) if "literal-block-wrapper" in node["classes"] else None
    return not {"evidence", "tag_evidence"}.isdisjoint([*node["classes"], *(inner["classes"] if inner else ())])


def gather_evidence(_app: Sphinx, doctree: nodes.document) -> None:
    """Move the evidence of each section into one fold at its end, before the sections inside it."""
    proofs_as_evidence(doctree)
    for section in list(doctree.findall(nodes.section)):
        evidence = [child for child in section if is_evidence(child)]
        for child in evidence:
            section.remove(child)
        inside = next((i for i, child in enumerate(section) if isinstance(child, nodes.section)), len(section))
        if evidence:
            section.insert(inside, fold("", *evidence, classes=["evidence"], words="How we know"))
    for lost in doctree.findall(nodes.container):
        if "evidence" in lost["classes"] and not isinstance(lost.parent, fold):
            LOGGER.warning("how-we-know inside another box or a list: put it into the section itself", location=lost)


def words_of(code: nodes.Node) -> str:
    """The line that stands for code: the first name it defines and its file, or its length and its names."""
    source = "".join(block.astext() for block in code.findall(nodes.literal_block))
    caption, name = next((one.astext() for one in code.findall(nodes.caption)), ""), DEFINED.search(source)
    length = f"Code, {source.count(chr(10)) + 1} lines{names_in(source)}"
    return f"{name[1]}, in {caption}" if caption and name else caption or length


def is_code(node: nodes.Node) -> bool:
    """Whether a node is the code of a cell, or a listing of a file, long enough to be folded."""
    if not isinstance(node, nodes.container) or node.next_node(nodes.literal_block) is None:
        return False
    is_cell = "cell_input" in node["classes"]
    is_listing = "literal-block-wrapper" in node["classes"]
    return (is_cell or is_listing) and node.astext().count("\n") + 1 >= FEWEST


def offer_switch(doctree: nodes.document) -> None:
    """Put the switch behind the question of a chapter, or at the end of a page that has none."""
    switch = nodes.raw("", SWITCH, format="html")
    boxes = (box for box in doctree.findall(nodes.admonition) if "question" in box["classes"])
    if box := next(boxes, None):
        box.parent.insert(box.parent.index(box) + 1, switch)
    else:
        next(doctree.findall(nodes.section)).append(switch)


def fold_code(app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    """Make every listing and the code of every open cell a fold, and give a page that has folds its switch."""
    found = [one for one in doctree.findall(is_code) if not any(traverse_parent(one, AS_IT_IS))]  # type: ignore[arg-type]
    for code in found:
        parent, place = code.parent, code.parent.index(code)
        parent[place] = fold("", code, classes=["code"], words=words_of(code))
    folds = (node for node in doctree.findall() if isinstance(node, (fold, HideCodeCellNode)))
    if app.builder.name == "html" and next(folds, None) is not None:
        offer_switch(doctree)


def setup(app: Sphinx) -> None:
    app.add_node(fold, html=(visit_fold, depart_fold))
    app.connect("doctree-read", gather_evidence, priority=400)  # before the list of contents is read
    app.connect("doctree-resolved", fold_code)
