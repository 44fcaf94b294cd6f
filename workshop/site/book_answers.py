"""Questions that a page answers: a form in each prediction, with what it needs to judge, and the reader's progress.

Without scripts none of it is shown. The rules come from workshop/course/page_answers.py, which asks the chapters' own
checks. They stand in the page as base64, so that nobody reads the answer by accident; it is no secret, since the
solution is folded below. A site that keeps its solutions (`book_solutions: false`) has no forms.
"""

import atexit
import base64
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from workshop.course.exercises import exercises_of
from workshop.course.page_answers import is_asked
from workshop.site.book_exercises import cells_of, exercises, fold_python, fold_waiting, hide_ranges, link_to_colab
from workshop.site.book_index import pages_in_order, read_page
from workshop.site.filled import filled

ROOT = Path(__file__).resolve().parents[2]
NOTES = {
    "word": "Write -> for an arrow. You may leave out ▁ and the brackets of &lt;eos&gt;.",
    "number": "A number (three digits are enough), or a calculation such as 3 * 512 or ln(2).",
    "whole": "A whole number, or a calculation such as 3 * 512.",
    "choice": "A tap or a click answers. With keys, the arrows choose and Enter answers.",
    "several": "Choose all that apply.",
}
CHOICES = 'class="answer-fields one-press"'  # in answer_form.html: answer-choices.js judges a press
LARGEST_TO_TYPE = 100_000  # a larger number is a product, which a keypad of digits cannot write


@cache
def asking() -> subprocess.Popen[str]:
    """The process that finds the questions. It runs cells of the chapters."""
    command = [sys.executable, "-m", "workshop.course.page_answers"]
    one_core = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=ROOT, env=one_core, stdout=subprocess.PIPE, encoding="utf-8")
    atexit.register(process.kill)  # where the build fails before it asks
    return process


@cache
def questions() -> dict[str, Any]:
    """Label of an exercise → its question."""
    found, _ = asking().communicate()
    if asking().returncode:
        raise RuntimeError(f"the questions of the pages were not found (exit status {asking().returncode}): see above")
    return json.loads(found)


def wants_forms(app: Sphinx) -> bool:
    """Whether the pages of this build ask."""
    return app.config.book_solutions and app.builder.name == "html"


def start_asking(app: Sphinx) -> None:
    """Begin at once: the questions take as long to find as the sources to read."""
    if wants_forms(app):
        asking()


def keyboard(question: dict[str, Any]) -> str:
    """The keyboard that a phone shows: digits alone only where no answer to be expected needs more."""
    boxes = [rule[0] for rule in question["rules"]]
    ends = [end for box in boxes for one in box if isinstance(one, list) for end in one if end is not None]
    if question["kind"] == "word" or min(ends) <= -1 or max(ends) >= LARGEST_TO_TYPE:
        return "text"
    return "numeric" if question["kind"] == "whole" else "decimal"


def encoded(question: dict[str, Any]) -> str:
    """What the script reads: the kind, the remarks, and the rules, each with the place of its remark."""
    words = list(dict.fromkeys(rule[1] for rule in question["rules"]))
    rules = [[box, words.index(text), right] for box, text, right in question["rules"]]
    content = {"kind": question["kind"], "words": words, "rules": rules}
    return base64.b64encode(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()).decode()


def form_html(label: str, question: dict[str, Any], asked: str = "", before: str = "") -> str:
    """The form of one question; of one `asked` before a showing, `before` is the id of what waits for the answer."""
    note, rules = NOTES[question["kind"]], encoded(question)
    keys = "" if question["choices"] else keyboard(question)
    values = {"label": label, "note": note, "rules": rules, "keyboard": keys, "asked": asked, "before": before}
    return filled("answer_form.html", **question | values)


def add_forms(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put the form of each prediction before the cell that answers it in Python."""
    if not wants_forms(app):
        return
    for exercise in exercises(doctree):
        label = exercise.get("label", "")
        cells = cells_of(exercise, "answer")
        hide_ranges(exercise)
        if cells and label in questions():
            form = nodes.raw("", form_html(label, questions()[label]), format="html")
            cells[0].parent.insert(cells[0].parent.index(cells[0]), form)
            fold_python(exercise)
        elif cells:
            fold_waiting(exercise)
            link_to_colab(app, docname, cells[0])


class Answers(SphinxDirective):
    """`{answers}`: the questions of all chapters, how many the reader has answered, export and clearing."""

    def run(self) -> list[nodes.Node]:
        if not self.config.book_solutions:
            return []
        asked = []
        for path in pages_in_order(Path(self.env.srcdir)):
            self.env.note_dependency(str(path))
            page = read_page(path)
            if labels := [exercise.label for exercise in exercises_of(page) if is_asked(exercise)]:
                asked.append((page, labels))
        return [nodes.raw("", filled("answers.html", asked=asked), format="html")]
