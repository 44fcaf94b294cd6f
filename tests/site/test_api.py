"""The pages of the API: every public name, its shapes, and the links that lead there and back."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest
from sphinx.util.inspect import signature, stringify_signature

import transformer_lib
from workshop.lab.correspondence import rows
from workshop.site.book_api import prepare

BOOK = Path(__file__).resolve().parents[2] / "book"
pytestmark = pytest.mark.slow


def prepared(docstring: str) -> list[str]:
    lines = docstring.split("\n")
    prepare(None, "function", "name", None, None, lines)  # type: ignore[arg-type]
    return lines


def test_an_equation_stays_as_it_is_written_and_a_bar_in_prose_is_a_bar() -> None:
    lines = prepared("Divides by |Y|.\n\n    lp(Y) = |Y| / 6\n      more\n\nSource: x [eq-1].\n\nArgs:\n    a: |Y|.")
    assert lines[0] == r"Divides by \|Y\|."
    assert lines[2:6] == ["::", "", "    lp(Y) = |Y| / 6", "      more"]
    assert lines[7] == "Source: x [:ref:`eq-1 <eq-1>`]."
    assert lines[-1] == r"    a: \|Y\|."


def test_autodoc_can_parse_every_signature() -> None:
    modules = re.findall(r"automodule:: (\S+)", "".join(path.read_text("utf-8") for path in BOOK.glob("api*.rst")))
    names = [(module, value) for module in modules for value in vars(importlib.import_module(module)).values()]
    functions = [each for module, each in names if inspect.isfunction(each) and each.__module__ == module]
    assert len(functions) > 50
    for function in functions:
        ast.parse(f"def function{stringify_signature(signature(function))}: ...")


def test_every_name_of_the_public_face_is_described(site: Path) -> None:
    page = (site / "book/api.html").read_text("utf-8") + (site / "book/api_tools.html").read_text("utf-8")
    described = set(re.findall(r'id="transformer_lib\.([\w.]+)"', page))
    public = [name for name in transformer_lib.__all__ if not name.startswith("_")]
    missing = [name for name in public if not any(each.endswith(f".{name}") for each in described)]
    assert missing == []


def test_the_signature_shows_the_shapes_and_the_source_leads_to_the_chapter(site: Path) -> None:
    page = (site / "book/api.html").read_text("utf-8")
    [entry] = re.findall(
        r'<dt[^>]*id="transformer_lib\.attention\.scaled_dot_product_attention".*?</dd></dl>', page, re.DOTALL
    )
    assert "*batch queries d_k" in re.sub(r"<[^>]+>", "", entry)
    assert 'href="attention.html#eq-1"' in entry


def test_listings_and_the_map_of_the_paper_lead_to_the_api(site: Path) -> None:
    target = "api.html#transformer_lib.attention.scaled_dot_product_attention"
    assert re.search(
        rf'class="caption-text"[^>]*><a [^>]*href="{re.escape(target)}"',
        (site / "book/attention.html").read_text("utf-8"),
    )
    index = (site / "book/index.html").read_text("utf-8")
    shown = [row.function for row in rows() if row.function and "." in row.function]
    assert [name for name in shown if f'#transformer_lib.{name}"' not in index] == []
