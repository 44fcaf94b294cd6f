"""The charts of the built site: in both schemes, worked by keys, with their numbers in a table and a file.

How they stand out from their ground and how they fit a phone is tested in test_pages.py: the pages are open there
anyway.
"""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import CHAPTERS, DRAWN_IN, ROOT, SITE, opened, recorded, turned, unfolded
from playwright.sync_api import BrowserContext, Locator, Page

from transformer_lib import scaled_dot_product_attention

pytestmark = pytest.mark.slow

COLOURS_FILE = ROOT / "book" / "_static" / "book-chart-colours.js"
SPECIFICATION = re.compile(r'<div class="vega-chart"><script type="application/json">(.*?)</script>', re.DOTALL)
COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|^(?:white|black|gr[ae]y|red|green|blue|orange|steelblue)$", re.IGNORECASE)


def specifications(page: str) -> list[dict[str, Any]]:
    return [json.loads(text.replace(r"<\/", "</")) for text in SPECIFICATION.findall((SITE / page).read_text("utf-8"))]


def colours(value: Any) -> Iterator[str]:
    """Every colour that a specification names outside its data."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in {"data", "datasets", "title", "description"}:
                yield from colours(part)
    elif isinstance(value, list):
        for part in value:
            yield from colours(part)
    elif isinstance(value, str):
        yield from (found.lower() for found in COLOUR.findall(value))


def test_every_colour_of_a_chart_has_a_partner_in_the_dark_scheme(site: Path) -> None:
    listed = COLOURS_FILE.read_text("utf-8").split("const DARK_COLOURS = {")[1].split("};")[0]
    known = {name.strip('"') for name in re.findall(r'^\s*("?[#\w]+"?):', listed, re.MULTILINE)}
    found = {(page, colour) for page in CHAPTERS for spec in specifications(page) for colour in colours(spec)}
    assert len({colour for _, colour in found}) >= 10
    unknown = sorted(pair for pair in found if pair[1] not in known)
    assert unknown == [], "add these to DARK_COLOURS in book/_static/book-chart-colours.js"


# What the marks of a chart look like, without axes and titles.
MARKS = "chart => [...chart.querySelectorAll('g.role-mark')].map(group => group.innerHTML).join('')"
# page, name of a control that one chart of it has, key that moves it.
CONTROLS = [
    ("attention", "Under the root of step 2:", "ArrowRight"),
    ("masks", "Masks:", "ArrowUp"),
    ("positional_encoding", "Place pos:", "ArrowRight"),
    ("learning_rate", "Warm-up, steps:", "ArrowLeft"),
    ("learning_rate", "Highest rate, thousandths:", "ArrowUp"),
    ("decoding", "Beam width:", "ArrowRight"),
    ("embeddings", "with the factor", "Space"),
]


@pytest.mark.deep
def test_a_control_answers_to_keys(page: Page, origins: dict[str, str]) -> None:
    faults = recorded(page, origins["http"])
    shown = ""
    for name, label, key in CONTROLS:
        if name != shown:
            opened(page, f"{origins['http']}book/{name}.html")
            unfolded(page)
            shown = name
        control = page.get_by_label(re.compile(f"^{label}"))
        chart = page.locator(".vega-chart").filter(has=control)
        before = chart.evaluate(MARKS)
        control.focus()
        for _ in range(1 if key == "Space" else 5):
            page.keyboard.press(key)
        page.wait_for_function(
            f"([chart, before]) => ({MARKS})(chart) !== before", arg=[chart.element_handle(), before], timeout=5000
        )
    assert faults == []


def test_every_control_has_a_name_and_nothing_needs_a_pointer(site: Path) -> None:
    """A parameter of a chart is set by an input with a name; a choice by pointing alone is out of reach of keys."""
    unreachable = []
    for page in CHAPTERS:
        for spec in specifications(page):
            for param in spec.get("params", []):
                bound = param.get("bind")
                if bound is None and ("select" in param or "value" in param):
                    unreachable.append((page, param["name"]))
                elif isinstance(bound, dict) and not bound.get("name", "").strip():
                    unreachable.append((page, param["name"], "without a name"))
    assert unreachable == []


TABLE = """chart => {
  const table = chart.nextElementSibling.querySelector('table');
  return table && {
    caption: table.caption.textContent,
    scopes: [...table.querySelectorAll('th')].map(cell => cell.scope),
    rows: [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent)),
  };
}"""


def chart_with(page: Page, text: str) -> Locator:
    """The chart with this text in its drawing or controls, once it has its box of data."""
    page.wait_for_function("[...document.querySelectorAll('.vega-chart')].every(c => c.dataset.drawn)")
    return page.locator(".vega-chart").filter(has_text=text)


# One page for several tests: each sets the controls that it needs.
@pytest.fixture(scope="module")
def attention(context: BrowserContext, origins: dict[str, str]) -> Page:
    page = context.new_page()
    opened(page, f"{origins['http']}book/attention.html", "dark")
    page.wait_for_function(DRAWN_IN, arg="dark")  # from the first
    return page


def test_the_numbers_of_a_chart_follow_its_control(attention: Page) -> None:
    """Opened by a key, the table shows the softmax of 0, 3/√2, 0; with 64 under the root, that of 0, 3/8, 0."""
    chart = chart_with(attention, "The four steps of attention")
    assert chart.evaluate(TABLE) is None, "the table is made when it is asked for"
    chart.locator("+ .chart-data > summary").focus()
    attention.keyboard.press("Enter")
    attention.wait_for_selector(".chart-data table")
    table = chart.evaluate(TABLE)
    assert table["caption"] == "The four steps of attention (1 of 2), with the controls as they stand"
    assert set(table["scopes"]) == {"col", "row"}
    found = {word: float(weight) for word, *_, weight in table["rows"]}
    assert found == {"forty": 0.09669, "seven": 0.8066, "end": 0.09669}
    attention.get_by_label("Under the root of step 2:").focus()
    attention.keyboard.press("End")
    attention.wait_for_function("document.querySelectorAll('.chart-data td')[2].textContent === '0.2894'")


def test_a_long_table_is_cut_and_its_file_is_whole(page: Page, origins: dict[str, str], tmp_path: Path) -> None:
    opened(page, f"{origins['http']}book/learning_rate.html")
    unfolded(page)
    chart = chart_with(page, "Equation (3) for three widths")
    page.wait_for_selector(".chart-data table")
    table = chart.evaluate(TABLE)
    assert len(table["rows"]) == 200
    count = int(re.findall(r"the first 200 of (\d+) rows", table["caption"])[0])
    with page.expect_download() as download:
        chart.locator("+ .chart-data .chart-data-save").first.click()
    download.value.save_as(tmp_path / "rates.csv")
    with (tmp_path / "rates.csv").open(encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["line", "step", "rate (thousandths)"]
    assert len(rows) == count > 200
    # Equation (3) at d_model 512, step 100, warm-up 4000.
    [rate] = [float(rate) for line, step, rate in rows if line == "d_model = 512" and step == "100"]
    assert rate == pytest.approx(1000 * 512**-0.5 * 100 * 4000**-1.5)


def test_a_change_of_theme_or_width_keeps_what_the_reader_chose(attention: Page) -> None:
    unfolded(attention)
    chart = chart_with(attention, "The four steps of attention")
    attention.get_by_label("Under the root of step 2:").focus()
    attention.keyboard.press("End")
    dark = chart.inner_html()
    turned(attention, "light", 390)
    light = chart.inner_html()
    wide, room = chart.evaluate("chart => [chart.scrollWidth, chart.clientWidth]")
    focused = attention.evaluate("[document.activeElement.type, document.activeElement.value]")
    weights = [row[-1] for row in chart.evaluate(TABLE)["rows"]]
    assert light != dark
    assert focused == ["range", "64"]
    assert weights == ["0.2894", "0.4211", "0.2894"]
    assert wide <= room, "a chart that can shrink fits a phone"


def test_a_map_of_more_words_fits_a_phone_too(page: Page, origins: dict[str, str]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, f"{origins['http']}book/attention_maps.html")
    unfolded(page)
    chart = page.locator(".vega-chart").filter(has=page.get_by_label("Sentence:")).first
    sentences = chart.get_by_label("Sentence:").locator("option").count()
    for number in range(sentences):
        chart.get_by_label("Sentence:").select_option(index=number)
        page.wait_for_function("chart => chart.scrollWidth <= chart.clientWidth", arg=chart.element_handle())
        assert chart.get_by_label("Sentence:").evaluate("list => list.selectedIndex") == number
    assert sentences > 1


# ── What a chart computes is what the library computes ────────────────────────────────────────────────────────

FOUND = "[...document.querySelectorAll('.vega-chart')].find(chart => chart.textContent.includes(title))"
MOVE = f"""([title, label, value]) => {{
  const chart = {FOUND};
  const binding = [...chart.querySelectorAll('.vega-bind')].find(one => one.textContent.startsWith(label));
  const control = binding.querySelector('input');
  if (control.type === 'checkbox') {{
    if (control.checked !== value) control.click();
  }} else {{
    control.value = value;
    control.dispatchEvent(new Event('input', {{ bubbles: true }}));
  }}
}}"""
AS_EXPECTED = f"""([title, expected]) => {{
  const texts = [...{FOUND}.querySelectorAll('svg .mark-text.role-mark text')];
  return texts.map(text => text.textContent.replace('−', '-')).join('|') === expected;
}}"""


def test_attention_for_a_query_of_the_readers_own(attention: Page) -> None:
    title = "The four steps of attention"
    key = torch.tensor([[0.0, 1], [1, 0], [0, 0]])
    value = torch.tensor([[0.0, 4], [7, 0], [0, 0]])
    for first, second, root in ((2.0, 2.0, 2), (4.0, -3.5, 2), (-1.5, 0.5, 2), (4.0, -3.5, 64)):
        query = torch.tensor([[first, second]])
        # The library divides by the root of the two numbers of a key.
        output, weights = scaled_dot_product_attention(query * (2 / root) ** 0.5, key, value)
        dots = (query @ key.T)[0]
        expected = [f"{dot:.1f}" for dot in dots] + [f"{dot / root**0.5:.2f}" for dot in dots]
        expected += [f"{weight:.2f}" for weight in weights[0]] + [f"{number:.1f}" for number in output[0]]
        settings = {"Query, asks for ones": first, "Query, asks for tens": second, "Under the root of step 2": root}
        for label, setting in settings.items():
            attention.evaluate(MOVE, [title, label, setting])
        attention.wait_for_function(AS_EXPECTED, arg=[title, "|".join(expected)], timeout=10_000)
