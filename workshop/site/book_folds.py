"""The line that stands for folded code: it says what the code makes, or which mistake a wrong answer makes."""

import re

from docutils import nodes
from sphinx.application import Sphinx


def made_by(cell: nodes.container) -> str:
    """What a cell makes: a check, a figure, an output, or only names for the cells after it."""
    if "tag_check" in cell["classes"]:
        return "this check"
    kinds = [part["mime_type"] for part in cell.findall(nodes.container) if "mime_type" in part]
    if any(kind.startswith(("image/", "application/vnd.vega")) for kind in kinds):
        return "this figure"
    is_shown = any(part.get("nb_element") == "cell_code_output" for part in cell.findall(nodes.container))
    return "this output" if is_shown else "this step"


def mistake(cell: nodes.container) -> str:
    """The line of a wrong answer: its first comment that is no shape, where it has one."""
    source = next((part.astext() for part in cell.findall(nodes.literal_block)), "")
    comment = re.search(r"(?:^|  )# ([^(].*)", source, re.MULTILINE)
    return f"A wrong answer: {comment[1]}" if comment else "A wrong answer, and what the check says"


def name_folds(_app: Sphinx, doctree: nodes.document) -> None:
    for cell in doctree.findall(nodes.container):
        if cell.get("hide_mode") == "input":
            what = made_by(cell)
            cell["prompt_show"], cell["prompt_hide"] = f"Code of {what}", f"Hide the code of {what}"
        elif cell.get("hide_mode") == "all" and "tag_wrong-answer" in cell["classes"]:
            cell["prompt_show"] = cell["prompt_hide"] = mistake(cell)
