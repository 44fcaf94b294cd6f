"""An exercise on its page: what only Python needs folds behind the form, and code has a link to its notebook.

Where the page asks (book_answers.py), the cell that waits for an answer and the check that looks for one are closed,
the sentence that names the variable, `[…]{.in-python}`, is hidden by book.css. Where the answer is code, its empty
names and the check that can only find them empty are closed; the check of code that runs and is wrong shows its
symptom, and stays. Without scripts, on paper and with *Show code and checks* all is there. The ranges of a class's
variants stand on no page.
"""

import ast
import html
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx_exercise.nodes import exercise_enumerable_node, exercise_node

from workshop.site.address import configured
from workshop.site.book_layers import fold

RANGE = re.compile(r"\s+#.*$", re.MULTILINE)
IN_PYTHON = "in-python"


def exercises(doctree: nodes.document) -> list[nodes.Element]:
    return [*doctree.findall(exercise_node), *doctree.findall(exercise_enumerable_node)]


def cells_of(exercise: nodes.Element, tag: str) -> list[nodes.container]:
    return [cell for cell in exercise.findall(nodes.container) if f"tag_{tag}" in cell.get("classes", [])]


def close(cells: list[nodes.container], words: str) -> fold:
    """Put cells into a fold where the first of them stands."""
    closed = fold("", classes=[IN_PYTHON], words=words)
    cells[0].parent.insert(cells[0].parent.index(cells[0]), closed)
    for cell in cells:
        cell.parent.remove(cell)
        closed.append(cell)
    return closed


def fold_python(exercise: nodes.Element) -> None:
    """Close the cells of an exercise that a form on the page asks."""
    close([*cells_of(exercise, "answer"), *cells_of(exercise, "check")], "The same in Python")


def hide_ranges(exercise: nodes.Element) -> None:
    """Leave out of the numbers of an exercise what a class may get in their place."""
    for block in (block for cell in cells_of(exercise, "numbers") for block in cell.findall(nodes.literal_block)):
        with_source(block, RANGE.sub("", block.astext()))


def is_empty(value: ast.AST | None) -> bool:
    """Whether a value waits for an answer: None, {}, or a dictionary of None alone."""
    if isinstance(value, ast.Dict):
        return all(is_empty(one) for one in value.values)
    return isinstance(value, ast.Constant) and value.value is None


def without_empty(source: str) -> tuple[str, str]:
    """Code parted into what a reader reads, and the names that wait for an answer, with the comments above them."""
    lines, waits, begun = source.splitlines(), set[int](), 0
    for one in ast.parse(source).body:
        if isinstance(one, ast.Assign) and is_empty(one.value):
            first = one.lineno - 1
            while first > begun and lines[first - 1].startswith("#"):
                first -= 1
            waits |= {*range(first, one.end_lineno or one.lineno)}
        begun = one.end_lineno or one.lineno
    parts = ["\n".join(line for i, line in enumerate(lines) if (i in waits) is waiting) for waiting in (False, True)]
    return parts[0].strip(), parts[1]


def has_stub(source: str) -> bool:
    """Whether a function is still to be written: its body ends in `...`."""
    last = [one.body[-1] for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef)]
    return any(isinstance(one, ast.Expr) and getattr(one.value, "value", None) is ... for one in last)


def fold_waiting(exercise: nodes.Element) -> None:
    """Close what only waits for an answer, in an exercise whose answer is code."""
    answers, checks = cells_of(exercise, "answer"), cells_of(exercise, "check")
    blocks = [block for cell in answers for block in cell.findall(nodes.literal_block)]
    parts = [without_empty(block.astext()) for block in blocks]
    if not checks or not any(empty or has_stub(read) for read, empty in parts):
        return
    closed = close(checks, "The check in Python")
    waiting = [with_source(block.deepcopy(), empty) for block, (_, empty) in zip(blocks, parts, strict=True) if empty]
    closed[:0] = waiting
    for block, (read, empty) in zip(blocks, parts, strict=True):
        if empty:
            with_source(block, read)
    for cell in [cell for cell in answers if not cell.astext().strip()]:
        cell.parent.remove(cell)


def with_source(block: nodes.literal_block, source: str) -> nodes.literal_block:
    """The block with other code; Sphinx colours it where its raw source is its text."""
    block[:], block.rawsource = [nodes.Text(source)], source
    return block


def link_to_colab(app: Sphinx, docname: str, cell: nodes.container) -> None:
    """End an exercise whose answer is code with a link to its chapter's notebook."""
    address = configured(Path(app.srcdir)).colab(f"notebooks/{Path(docname).name}.ipynb")
    link = f'<p class="in-colab"><a href="{html.escape(address)}">Do this in Colab</a></p>'
    cell.parent.append(nodes.raw("", link, format="html"))
