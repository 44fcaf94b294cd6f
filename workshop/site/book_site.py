"""Local Sphinx extension of the book: local charts, checked descriptions, the table of the paper.

The rest of the work is in book_answers.py (questions that the page answers), book_asks.py (those that stand before a
showing), book_charts.py (charts and pictures),
book_places.py (what runs in the browser), book_head.py (what others say of a page), book_report.py (links to the forms
for a report), book_outputs.py (what cells print), book_languages.py (German words), book_names.py (tests and names of a
package), book_files.py (files beside the
pages), book_weight.py (what a page weighs) and book_pages.py (the finished HTML).

Then there are formulas.py, book_layers.py (argument, code, evidence) and book_search.py (words that the search finds).
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective

from workshop.site import (
    book_answers,
    book_asks,
    book_breaks,
    book_charts,
    book_files,
    book_folds,
    book_head,
    book_languages,
    book_layers,
    book_names,
    book_outputs,
    book_pages,
    book_places,
    book_report,
    book_search,
    book_weight,
    formulas,
    tables,
    teaching_plan,
)
from workshop.site.address import Address, configured
from workshop.site.plain_markdown import task_words

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = re.compile(r"^```\{solution-start\}.*?^```\{solution-end\}\n```\n", re.DOTALL | re.MULTILINE)
# Directive → its class on the page, the files that it is made from, and its text.
TABLES: dict[str, tuple[str, tuple[str, ...], Callable[[Path, Address], str]]] = {
    "correspondence": (
        "paper-table",
        ("workshop/lab/correspondence.py",),
        lambda _root, address: tables.paper_table(address, api=True),
    ),
    "seeded-defects": ("defect-table", ("workshop/lab/defects.toml", tables.RECORDED), tables.defect_table),
    "teaching-plan": ("teaching-plan", ("book/*.md",), lambda root, _address: teaching_plan.markdown(root)),
}
# Directive → its class on the page, and its title: what earns the points of an exercise marked by hand, and what
# proves a statement: tests, records, equality checks, logs.
BOXES = {"rubric": ("rubric", "Marks"), "how-we-know": ("evidence", "")}
# Mark in the text of a page → the scripts and styles that it needs.
LOADED: dict[str, Iterable[str]] = {
    'class="layers': ("book-layers.js",),  # first: before it has come, evidence is hidden
    'class="vega-chart"': book_charts.SCRIPTS,
    'class="answer': ("book-answers.js",),
    book_answers.CHOICES: ("answer-choices.js",),
    book_asks.MARK: book_asks.FILES,
    **{f'id="{name}"': [f"live/{file}" for file in place.FILES] for name, place in book_places.PLACES.items()},
}


class Table(SphinxDirective):
    """A table or list that is made anew from the repository at each build."""

    def run(self) -> list[nodes.Node]:
        root = Path(self.env.srcdir)
        html_class, sources, markdown = TABLES[self.name]
        for source in (path for pattern in sources for path in root.glob(pattern)):
            self.env.note_dependency(str(source))
        container = nodes.container(classes=[html_class])
        lines = StringList(markdown(root, configured(root)).splitlines(), sources[0])
        self.state.nested_parse(lines, self.content_offset, container)
        return [container]


class Task(SphinxDirective):
    """`{task}`: kind, difficulty, time and points of an exercise, and what it teaches."""

    required_arguments = 1
    option_spec: ClassVar = dict.fromkeys(
        ("difficulty", "minutes", "points", "teaches", "fields", "choices", "without"), directives.unchanged_required
    )

    def run(self) -> list[nodes.Node]:
        paragraph = nodes.paragraph(classes=["task"])
        words, messages = self.state.inline_text(task_words(self.arguments[0], self.options), self.lineno)
        paragraph += words
        return [paragraph, *messages]


class Box(SphinxDirective):
    """A part of a page with a class of its own."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        html_class, title = BOXES[self.name]
        container = nodes.container(classes=[html_class])
        self.state.nested_parse(self.content, self.content_offset, container)
        return [*([nodes.rubric("", title)] if title else []), container]


def without_solutions(text: str) -> str:
    """The source of a page without its solutions, and so without their cells."""
    return SOLUTION.sub("", text)


def prepared(text: str, with_solutions: bool) -> str:
    """The source of a page as it is read: without its solutions for a course that keeps them."""
    return text if with_solutions else without_solutions(text)


def leave_out_solutions(app: Sphinx, _docname: str, source: list[str]) -> None:
    source[0] = prepared(source[0], app.config.book_solutions)


def set_base(app: Sphinx, config: Config) -> None:
    """Let Sphinx write the canonical link of every page."""
    config.html_baseurl = configured(Path(app.srcdir)).home


def add_scripts(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Load the scripts and styles of what stands on the page."""
    wanted = (file for mark, files in LOADED.items() if mark in context.get("body", "") for file in files)
    for file in dict.fromkeys(wanted):  # two places of a page share some
        if file.endswith(".css"):
            app.add_css_file(file)
        else:
            app.add_js_file(file, loading_method="defer")


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Write what stands beside the pages; then lighten and repair the pages and what they load."""
    if exception is None and app.builder.name == "html":
        site = Path(app.outdir)
        book_places.write_payloads(site)
        book_files.write(app)
        book_pages.finish(site)
        book_weight.finish(site)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("book_solutions", True, "env")
    app.add_html_math_renderer("mathml", (formulas.visit, None), (formulas.visit, None))
    for name in TABLES:
        app.add_directive(name, Table)
    app.add_directive("task", Task)
    for name in BOXES:
        app.add_directive(name, Box, override=True)
    for name in book_names.FILES:
        app.add_role(name, book_names.Named())
    for name in book_places.PLACES:
        app.add_directive(name, book_places.Live)
    app.add_directive("answers", book_answers.Answers)
    app.add_directive("ask", book_asks.Ask)
    app.connect("config-inited", set_base)
    app.connect("builder-inited", book_answers.start_asking)
    app.connect("source-read", leave_out_solutions)
    app.connect("doctree-read", book_folds.name_folds)
    book_layers.setup(app)
    book_search.setup(app)
    app.connect("doctree-resolved", book_outputs.fold_outputs)
    app.connect("doctree-resolved", book_languages.mark_german)
    app.connect("doctree-resolved", book_breaks.keep_together)
    app.connect("doctree-resolved", book_answers.add_forms)
    app.connect("doctree-resolved", book_charts.embed_drawings)
    app.connect("doctree-resolved", book_charts.check_pictures)
    app.connect("doctree-resolved", book_charts.embed_charts)
    app.connect("html-page-context", add_scripts)
    app.connect("html-page-context", book_head.add_tags)
    app.connect("html-page-context", book_report.add_links, priority=900)
    app.connect("html-page-context", book_files.offer_notebook, priority=900)
    app.connect("build-finished", finish, priority=600)  # after Jupyter Book's own, which writes the page at the root
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
