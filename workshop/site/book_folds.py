"""The line that stands for folded code: it says what the code makes, or which mistake a wrong answer makes."""

import re

from docutils import nodes
from sphinx.application import Sphinx

from workshop.site.book_charts import altair_spec

DEFINED = re.compile(r"^(?:class|def) (\w+)", re.MULTILINE)
ASSIGNED = re.compile(r"^(\w+(?:, \w+)*) = ", re.MULTILINE)


def names_in(source: str) -> str:
    """What code makes for the code after it, as ": a, b": what it defines, or else its first three variables."""
    assigned = [name for names in ASSIGNED.findall(source) for name in names.split(", ") if name != "_"]
    names = DEFINED.findall(source) or list(dict.fromkeys(assigned))
    return f": {', '.join(names[:3])}{', …' * (len(names) > 3)}" if names else ""


def made_by(cell: nodes.container) -> str:
    """What a cell makes: a check, a figure, an output, or only names for the cells after it."""
    if "tag_check" in cell["classes"]:
        return "this check"
    if is_setup(cell):
        return "the imports"
    shown = [part for part in cell.findall(nodes.container) if "mime_type" in part]
    if any(
        part["mime_type"].startswith(("image/", "application/vnd.vega")) or altair_spec(part.astext()) for part in shown
    ):
        return "this figure"
    return "this output" if has_output(cell) else "this step"


def has_output(cell: nodes.container) -> bool:
    return any(part.get("nb_element") == "cell_code_output" for part in cell.findall(nodes.container))


def is_setup(cell: nodes.container) -> bool:
    """Whether a cell stands before the first section and shows nothing: a reader meets no step there."""
    before = cell.parent[: cell.parent.index(cell)] if cell.parent is not None else []
    at_top = isinstance(cell.parent, nodes.section) and isinstance(cell.parent.parent, nodes.document)
    return at_top and not has_output(cell) and not any(isinstance(one, nodes.section) for one in before)


def source_of(cell: nodes.container) -> str:
    return next((part.astext() for part in cell.findall(nodes.literal_block)), "")


def mistake(cell: nodes.container) -> str:
    """The line of a wrong answer: its first comment that is no shape, where it has one."""
    comment = re.search(r"(?:^|  )# ([^(].*)", source_of(cell), re.MULTILINE)
    return f"A wrong answer: {comment[1]}" if comment else "A wrong answer, and what the check says"


def name_folds(_app: Sphinx, doctree: nodes.document) -> None:
    """Fold the checks and the wrong answers, which would fill several screens of a phone, and name each fold."""
    for cell in doctree.findall(nodes.container):
        if "tag_wrong-answer" in cell["classes"]:
            cell["hide_mode"] = "all"
            cell["prompt_show"] = cell["prompt_hide"] = mistake(cell)
        elif "tag_check" in cell["classes"] or cell.get("hide_mode") == "input":
            cell["hide_mode"] = "input"
            what = made_by(cell)
            cell["classes"] += ["setup"] * (what == "the imports")
            named = names_in(source_of(cell)) if what in ("this output", "this step") else ""
            cell["prompt_show"], cell["prompt_hide"] = f"Code of {what}{named}", f"Hide the code of {what}{named}"
