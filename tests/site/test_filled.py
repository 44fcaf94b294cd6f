"""Texts with gaps: what is put in is escaped where a browser reads it, and nothing is left out unnoticed."""

import pytest
from jinja2 import UndefinedError

from workshop.site.filled import TEMPLATES, filled


def test_what_stands_in_html_is_escaped_and_in_markdown_is_not() -> None:
    assert "<title>a &lt; b</title>" in filled("entrance.html", site_name="a < b", pages=[""], home="", description="")
    assert "# Exercises: a < b" in filled("introduction.md", title="a < b", site="", name="")


def test_every_template_that_a_browser_or_a_reader_of_books_opens_is_escaped() -> None:
    read = (".html", ".html.j2", ".xhtml", ".xml")
    names = [name for name in TEMPLATES.list_templates() if name.endswith(read)]
    assert {"epub/package.xml", "epub/page.xhtml", "project_feedback.html.j2", "answer_form.html"} <= {*names}
    assert all(TEMPLATES.autoescape(name) for name in names)  # type: ignore[operator]


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="site_name"):
        filled("entrance.html", pages=[""], home="", description="")
