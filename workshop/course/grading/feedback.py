"""A student's marked notebook as one HTML file that loads nothing: formulas as MathML, no scripts, no fonts."""

import contextlib
import html
import re
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import bleach  # pyright: ignore[reportMissingModuleSource]
from nbconvert.exporters import HTMLExporter  # pyright: ignore[reportMissingImports]
from nbconvert.filters.markdown_mistune import (  # pyright: ignore[reportMissingImports]
    IPythonRenderer,
    MarkdownWithMath,
)
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor  # pyright: ignore[reportMissingImports]
from nbgrader.preprocessors import NbGraderPreprocessor  # pyright: ignore[reportMissingImports]
from traitlets.config import Config  # pyright: ignore[reportMissingImports]

from workshop.course.grading.counted import counted
from workshop.course.grading.exercise_parts import BEGIN, END, words_of
from workshop.course.grading.marks import Marks
from workshop.site import formulas

ROOT = Path(__file__).resolve().parents[3]
FORMULA_LENGTH = 2000
MATHML = """annotation math menclose mfenced mfrac mi mlabeledtr mmultiscripts mn mo mover mpadded mphantom mprescripts
mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none semantics""".split()
TEXT = """a abbr b blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i img li ol p pre s section span strong
sub sup table tbody td th thead tr ul""".split()
SHAPE = """accent class columnalign columnspacing display displaystyle fence form height id linethickness lspace
mathcolor mathsize mathvariant maxsize minsize movablelimits notation rowspacing rspace scriptlevel separator stretchy
symmetric voffset width xmlns""".split()


def mathml(formula: str, display: bool = False) -> str:
    """A formula as MathML; as it was written where it cannot be read."""
    if len(formula) <= FORMULA_LENGTH:
        with contextlib.suppress(ValueError):  # a student's formula may be anything
            return formulas.mathml(formula, display)
    return f"<code>{html.escape(formula)}</code>"


class Renderer(IPythonRenderer):
    """Markdown as HTML; pictures of other hosts become their descriptions, pasted ones stay."""

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def block_math(self, body: str) -> str:
        return mathml(body, display=True)

    def latex_environment(self, name: str, body: str) -> str:
        return mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", display=True)

    def block_mermaidjs(self, code: str) -> str:
        return f"<pre>{html.escape(code)}</pre>"

    def image(self, text: str, url: str, title: str | None = None) -> str:
        if url.removeprefix("attachment:") in self.attachments and url.startswith("attachment:"):
            return super().image(text, url, title)
        return f"[picture: {html.escape(text or 'without a description')}]"


def _may_stay(tag: str, name: str, value: str) -> bool:
    """Whether an attribute is one of shape, a link to another page or a picture that stands in the page itself."""
    if name == "src":
        return tag == "img" and value.startswith("data:image/")
    if name == "href":
        return tag == "a" and not value.strip().lower().startswith("data:")
    return name in SHAPE or (tag == "img" and name == "alt")


def markdown(source: str, trusted: bool, attachments: dict[str, dict[str, str]] | None = None) -> str:
    """HTML of the assignment's own text, in which tags count, or of a student's, in which they are shown."""
    renderer = Renderer(escape=not trusted, exclude_anchor_links=True, attachments=attachments)
    text = MarkdownWithMath(renderer=renderer).render(source)
    if trusted:
        return text
    protocols = {"http", "https", "mailto", "data"}  # data: in pictures alone, see above
    return bleach.clean(text, tags={*TEXT, *MATHML}, attributes=_may_stay, protocols=protocols)


def _stopped(cells: list[Any]) -> dict[str, str]:
    """Answer → the error that its own cell ended with: a check that misses the answer's name says no more than that."""
    answers = [cell for cell in cells if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution")]
    errors = ((cell, out) for cell in answers for out in cell.outputs if out.output_type == "error")
    return {cell.metadata.nbgrader.grade_id: f"{out.ename}: {out.evalue}" for cell, out in errors}


def nameless(text: str) -> str:
    """Text without the folders of this machine, which name its owner: an error in the package shows where it lies."""
    for folder in map(str, (ROOT, Path(sys.prefix), Path(sys.base_prefix), Path.home())):
        text = text.replace(folder, "…") if len(folder) > 1 else text
    return text


def _outcome(cell: Any, stopped: str) -> str:
    """What a check said: its error's message, or the last line it printed."""
    failed = any(out.output_type == "error" for out in cell.outputs)
    if failed and cell.metadata.get("unanswered") and BEGIN in cell.source:
        return cell.metadata["unanswered"]
    printed = "".join(out.text for out in cell.outputs if out.output_type == "stream")
    for output in reversed(cell.outputs):  # of a stopped cell the last error says why
        if output.output_type == "error":
            if output.ename == "NameError" and stopped:
                return f"Your cell ended with {stopped}"
            last = output.evalue if output.ename == "AssertionError" else f"{output.ename}: {output.evalue}"
            before = "" if not printed.startswith("This came up") else printed.split("\n")[0] + " "
            return before + last + f". But first: your cell ended with {stopped}" * bool(stopped)
    lines = printed.strip().split("\n")
    return lines[-1] if lines else ""


class Presentation(NbGraderPreprocessor):
    """Notes on each cell what the page shows of it, and takes the hidden checks out."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        for held in (out.get("data", out) for cell in nb.cells for out in cell.get("outputs", ())):
            for name in {"text", "evalue", "text/plain"} & held.keys():
                held[name] = nameless(held[name])
        stopped = _stopped(nb.cells)
        for cell in nb.cells:
            role = cell.metadata.get("nbgrader", {})
            if cell.cell_type == "code" and role.get("grade") and not role.get("solution"):
                cell.metadata.outcome = _outcome(cell, stopped.get(cell.metadata.get("book", {}).get("answer"), ""))
                cell.metadata.hidden = BEGIN in cell.source
                cell.source = re.sub(f"{BEGIN}.*{END}", "", cell.source, flags=re.DOTALL)
        return nb, resources


@cache
def _exporter() -> HTMLExporter:
    settings = Config()
    settings.HTMLExporter.template_name = "feedback"
    settings.HTMLExporter.extra_template_basedirs = [str(Path(__file__).resolve().parent / "templates")]
    settings.HTMLExporter.preprocessors = [Presentation, CSSHTMLHeaderPreprocessor]
    exporter = HTMLExporter(config=settings)
    exporter.register_filter("students_markdown", partial(markdown, trusted=False))
    exporter.register_filter("assignments_markdown", partial(markdown, trusted=True))
    exporter.register_filter("counted", counted)
    exporter.register_filter("words_of", words_of)
    return exporter


def page(notebook: Any, marks: Marks) -> str:
    """The page for the student, from the notebook as it ran and the marks as they stand now."""
    return _exporter().from_notebook_node(notebook, resources={"marks": marks})[0]
