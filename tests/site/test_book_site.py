"""The local Sphinx extension: charts from local scripts, descriptions asked for."""

import hashlib
import json
from pathlib import Path
from typing import Any

import altair as alt
import pytest
from doctrees import document
from docutils import nodes

from workshop.site import book_charts
from workshop.site.book_index import Index

ROOT = Path(__file__).resolve().parents[2]


def chart(**properties: Any) -> nodes.raw:
    """The node that a notebook's Altair output becomes."""
    data = alt.Data(values=[{"a": 1, "b": "</script><!-- })({"}])
    bundle: Any = alt.Chart(data).mark_bar().encode(x="a:Q").properties(**properties)._repr_mimebundle_()
    return nodes.raw("", bundle["text/html"], format="html")


def test_a_chart_loses_its_foreign_scripts_and_keeps_its_specification(warnings: list[str]) -> None:
    tree = document(chart(description="One <bar>"))
    book_charts.embed_charts(None, tree, "page")  # type: ignore[arg-type]
    html = next(tree.findall(nodes.raw)).astext()
    assert "://cdn" not in html
    assert html.count("</script>") == 1
    assert "<noscript>One &lt;bar&gt;</noscript>" in html
    spec = json.loads(html.split('type="application/json">')[1].split("</script>")[0])
    assert spec["data"]["values"] == [{"a": 1, "b": "</script><!-- })({"}]
    assert warnings == []


def test_a_chart_without_a_description_is_reported(warnings: list[str]) -> None:
    book_charts.embed_charts(None, document(chart()), "page")  # type: ignore[arg-type]
    assert len(warnings) == 1
    assert "chart without a description" in warnings[0]


def test_data_that_browsers_cannot_read_is_reported(warnings: list[str]) -> None:
    html = chart(description="One bar").astext().replace('"a": 1', '"a": NaN')
    book_charts.embed_charts(None, document(nodes.raw("", html, format="html")), "page")  # type: ignore[arg-type]
    assert ["NaN" in warning for warning in warnings] == [True]


def test_other_html_is_left_alone(warnings: list[str]) -> None:
    tree = document(nodes.raw("", "<b>vegaEmbed</b>", format="html"), nodes.raw("", "x", format="latex"))
    book_charts.embed_charts(None, tree, "page")  # type: ignore[arg-type]
    assert [node.astext() for node in tree.findall(nodes.raw)] == ["<b>vegaEmbed</b>", "x"]
    assert warnings == []


@pytest.mark.parametrize("options", [{}, {"alt": ""}, {"alt": "_images/a.png"}, {"alt": "a.png"}, {"alt": "A line"}])
def test_a_picture_without_alt_text_is_reported(warnings: list[str], options: dict[str, str]) -> None:
    book_charts.check_pictures(None, document(nodes.image(uri="_images/a.png", **options)), "page")  # type: ignore[arg-type]
    reported = options != {"alt": "A line"}
    assert ["picture without alt text" in warning for warning in warnings] == [True] * reported


@pytest.mark.parametrize("folder", ["book/_static/vendor", "workshop/site/deck/vendor"])
def test_the_committed_browser_libraries_are_those_that_were_checked_in(folder: str) -> None:
    vendor = ROOT / folder
    recorded = dict(reversed(line.split("  ")) for line in (vendor / "SHA256SUMS").read_text("utf-8").splitlines())
    files = {path.relative_to(vendor).as_posix(): path for path in vendor.rglob("*") if path.is_file()}
    del files["SHA256SUMS"]
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == recorded
    assert not any(b"sourceMappingURL=" in path.read_bytes() for path in files.values() if path.suffix == ".js")


def test_no_two_papers_are_cited_by_one_name() -> None:
    index = Index([], ROOT / "book" / "references.bib")
    cited = [index.citation(key, textual=True).split("](")[0] for key in index.entries]
    twice = sorted({name for name in cited if cited.count(name) > 1})
    assert not twice, f"add a letter to the year in references.bib, as in 2014a: {twice}"
    assert {"[Cho et al. (2014a)", "[Cho et al. (2014b)"} < set(cited)
