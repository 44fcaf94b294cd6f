"""An exercise on its page: what only Python needs folds behind the form, and code has a link to its notebook.

Where the page asks (book_answers.py), the cell that waits for an answer and the check that looks for one are closed,
the sentence that names the variable is hidden by book.css. Without scripts, on paper and with *Show code and checks*
all of it stands there. The ranges from which a class gets its variants stand on no page.
"""

import html
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx_exercise.nodes import exercise_enumerable_node, exercise_node

from workshop.site.address import configured
from workshop.site.book_layers import fold

ASSIGNED = re.compile(r"^(\w+) = ", re.MULTILINE)
BEGINS = re.compile(r"(?:^|(?<=[.?!:]\s))(?:Then )?(?:[Pp]ut|Set|Write)\b")
ENDS = re.compile(r"[.;](?=\s|$)")
RANGE = re.compile(r"\s+#.*$", re.MULTILINE)
IN_PYTHON = "in-python"


def exercises(doctree: nodes.document) -> list[nodes.Element]:
    return [*doctree.findall(exercise_node), *doctree.findall(exercise_enumerable_node)]


def cells_of(exercise: nodes.Element, tag: str) -> list[nodes.container]:
    return [cell for cell in exercise.findall(nodes.container) if f"tag_{tag}" in cell.get("classes", [])]


def mark_sentence(exercise: nodes.Element, names: set[str]) -> None:
    """Give the sentence that says where an answer goes a class of its own: 'Put both into `predicted`.'"""
    literals = (one for one in exercise.findall(nodes.literal) if one.astext() in names)
    literal = next((one for one in literals if isinstance(one.parent, nodes.paragraph)), None)
    if literal is None:
        return
    paragraph = literal.parent  # the sentence will be the literal's
    parts = list(paragraph.children)
    here = next(i for i, part in enumerate(parts) if part is literal)
    texts = {i: part for i, part in enumerate(parts) if isinstance(part, nodes.Text)}
    starts = [(i, found.start()) for i, text in texts.items() if i < here for found in BEGINS.finditer(text)]
    ends = [(i, found.end()) for i, text in texts.items() if i > here for found in ENDS.finditer(text)]
    if starts and ends:
        (first, start), (last, end) = starts[-1], ends[0]
        inside = [nodes.Text(texts[first][start:]), *parts[first + 1 : last], nodes.Text(texts[last][:end])]
        sentence = nodes.inline("", "", *inside, classes=[IN_PYTHON])
        outside = nodes.Text(texts[first][:start]), nodes.Text(texts[last][end:])
        paragraph[:] = [*parts[:first], outside[0], sentence, outside[1], *parts[last + 1 :]]


def fold_python(exercise: nodes.Element) -> None:
    """Close the cells of an exercise that a form on the page asks."""
    answers, checks = cells_of(exercise, "answer"), cells_of(exercise, "check")
    mark_sentence(exercise, set(ASSIGNED.findall("\n".join(cell.astext() for cell in answers))))
    parent = answers[0].parent
    closed = fold("", classes=[IN_PYTHON], words="The same in Python")
    parent.insert(parent.index(answers[0]), closed)
    for cell in (*answers, *checks):
        cell.parent.remove(cell)
        closed.append(cell)


def hide_ranges(exercise: nodes.Element) -> None:
    """Leave out of the numbers of an exercise what a class may get in their place."""
    for block in (block for cell in cells_of(exercise, "numbers") for block in cell.findall(nodes.literal_block)):
        source = RANGE.sub("", block.astext())
        block[:], block.rawsource = [nodes.Text(source)], source  # Sphinx colours it where they are the same


def in_colab(app: Sphinx, docname: str) -> str:
    """The address of a page's notebook in Colab, which cannot open the Markdown source."""
    host = app.config.html_theme_options["launch_buttons"]["colab_url"]
    return configured(Path(app.srcdir)).colab(f"notebooks/{Path(docname).name}.ipynb", host)


def link_to_colab(app: Sphinx, docname: str, cell: nodes.container) -> None:
    """End an exercise whose answer is code with a link to its chapter's notebook."""
    link = f'<p class="in-colab"><a href="{html.escape(in_colab(app, docname))}">Do this in Colab</a></p>'
    cell.parent.append(nodes.raw("", link, format="html"))
