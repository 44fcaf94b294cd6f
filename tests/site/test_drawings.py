"""The drawings: described, legible in both schemes, without colour and on a phone."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from browser import contrast, rgb
from doctrees import document
from docutils import nodes
from playwright.sync_api import Page

from transformer_lib import plots
from workshop.site import book_charts
from workshop.site.plain_markdown import drawn

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
FOLDER = STATIC / "drawings"
SVG = "{http://www.w3.org/2000/svg}"
NAMES = sorted(path.stem for path in FOLDER.iterdir())
ROLES = ("query", "key", "value", "memory", "state")
COLOURS = {"ground": "#ffffff", "ink": plots.INK, "line": "#52606d"} | dict(zip(ROLES, plots.COLOURS[1:], strict=True))
TINT = 0.13  # of the role's colour, behind the words of a box; twice as much in the cells of a mask
# Words over words, over a line or over the edge of a box, and words that leave the drawing.
FAULTS = """() => {
  const faults = [], svg = document.querySelector('svg'), { width, height } = svg.viewBox.baseVal;
  const inked = text => {  // the box of its letters, without the room above and below them
    const { x, y, width, height } = text.getBBox();
    const edges = { left: x, right: x + width, top: y + 0.2 * height, bottom: y + 0.78 * height };
    return { ...edges, words: text.textContent, layer: text.closest('[class^=model-]') };
  };
  const words = [...svg.querySelectorAll('text')].map(inked);
  const lines = [...svg.querySelectorAll('path, polygon, circle')].map(line => {
    const points = Array.from({ length: line.getTotalLength() + 1 }, (_, at) => line.getPointAtLength(at));
    return { around: line.getBBox(), half: line.getAttribute('stroke-width') / 2 || 0, points };
  });
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  words.forEach((a, i) => {
    if (a.left < 3 || a.right > width - 3 || a.top < 2 || a.bottom > height - 2) faults.push(`outside: ${a.words}`);
    // One layer of a switch fades as another comes.
    const together = b => !a.layer || !b.layer || a.layer === b.layer;
    for (const b of words.slice(i + 1).filter(together)) {
      if (meet(a, b)) faults.push(`on each other: ${a.words} | ${b.words}`);
    }
    for (const { around, half, points } of lines) {
      if (a.left > around.x + around.width + half || a.right < around.x - half) continue;
      if (a.top > around.y + around.height + half || a.bottom < around.y - half) continue;
      const on = ({ x, y }) => meet(a, { left: x - half, right: x + half, top: y - half, bottom: y + half });
      if (points.some(on)) faults.push(`a line through: ${a.words}`);
    }
    for (const box of svg.querySelectorAll('rect[stroke]')) {
      const { x, y, width, height } = box.getBBox();
      const edges = { left: x, right: x + width, top: y, bottom: y + height };
      const inside = a.left > x + 1 && a.right < x + width - 1 && a.top > y && a.bottom < y + height;
      if (meet(a, edges) && !inside) faults.push(`over the edge of a box: ${a.words}`);
    }
  });
  return faults;
}"""


def faults(page: Page, drawing: str) -> list[str]:
    """What lies on the words of a drawing, on a phone's screen."""
    page.set_viewport_size({"width": 390, "height": 900})
    page.set_content(drawing)
    return page.evaluate(FAULTS)


def tree(name: str) -> ET.Element:
    return ET.fromstring((FOLDER / f"{name}.svg").read_text("utf-8"))


def palettes() -> dict[str, dict[str, str]]:
    """Role → colour, in each scheme of the book."""
    css = (STATIC / "book.css").read_text("utf-8")
    return {"light": COLOURS, "dark": dict(re.findall(r"--drawing-(\w+): (#[0-9a-f]{6});", css))}


def mixed(colour: str, ground: str, share: float) -> list[float]:
    return [share * c + (1 - share) * g for c, g in zip(rgb(colour), rgb(ground), strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_says_what_it_shows_in_letters_and_colours_that_can_be_read(name: str) -> None:
    svg = tree(name)
    title, words = svg.find(f"{SVG}title"), svg.find(f"{SVG}desc")
    assert title is not None
    assert words is not None
    assert svg.get("role") == "img"
    assert (svg.get("aria-labelledby"), svg.get("aria-describedby")) == (title.get("id"), words.get("id"))
    assert 8 <= len(title.text or "") <= 40
    assert 200 <= len(words.text or "") <= 1000
    assert "{" not in (words.text or "")
    assert (svg.get("viewBox") or "").startswith("0 0 360 ")
    sizes = [float(element.get("font-size", "0")) for element in svg.iter(f"{SVG}text")]
    sizes += [float(part.get("font-size", "12")) for part in svg.iter(f"{SVG}tspan")]
    assert min(sizes) >= 11, "on a phone"
    allowed = {f"var(--drawing-{role}, {colour})" for role, colour in COLOURS.items()} | {"none"}
    found = {value for part in svg.iter() for key in ("fill", "stroke") if (value := part.get(key))}
    assert found <= allowed
    assert len(found) > 3


def test_several_drawings_fit_on_one_page() -> None:
    ids = [element.get("id") for name in NAMES for element in tree(name).iter() if element.get("id")]
    assert len(ids) == len(set(ids)) == 2 * len(NAMES)


def test_the_colours_are_those_of_the_charts() -> None:
    script = (STATIC / "book-chart-colours.js").read_text("utf-8")
    pairs = dict(re.findall(r'"(#[0-9a-f]{6})": "(#[0-9a-f]{6})"', script))
    light, dark = palettes()["light"], palettes()["dark"]
    assert {light[role] for role in ROLES} <= set(plots.COLOURS)
    assert len({light[role] for role in ROLES}) == len(ROLES)
    assert dark.keys() == light.keys()
    assert {role: dark[role] for role in dark if role != "ground"} == {
        role: pairs[light[role]] for role in light if role != "ground"
    }
    assert f'DARK_CARD = "{dark["ground"]}"' in script


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_lines_stand_out(scheme: str) -> None:
    palette = palettes()[scheme]
    ground = palette["ground"]
    for role in (*ROLES, "line"):
        behind = mixed(palette[role], ground, 2 * TINT if role == "line" else TINT)
        assert contrast(rgb(palette["ink"]), behind) >= 4.5
        assert contrast(rgb(palette[role]), rgb(ground)) >= 3, role


def test_the_roles_differ_without_colour() -> None:
    """In every drawing a role has the same dashes and width of its outline; a query is a pill."""
    outlines: dict[str, set[tuple[str, float]]] = {role: set() for role in ROLES}
    for box in (box for name in NAMES for box in tree(name).iter(f"{SVG}rect")):
        if match := re.match(r"var\(--drawing-(\w+)", box.get("fill", "")):
            if match[1] in ROLES:
                outlines[match[1]].add((box.get("stroke-dasharray", ""), float(box.get("stroke-width", "0"))))
                assert (2 * float(box.get("rx", "0")) == float(box.get("height", "0"))) == (match[1] == "query")
            if match[1] != "ink":
                assert float(box.get("fill-opacity", "1")) == {"ground": 1, "line": 2 * TINT}.get(match[1], TINT)
    assert {len(found) for found in outlines.values()} == {1}
    for (dashes, width), (other_dashes, other_width) in combinations([found.pop() for found in outlines.values()], 2):
        assert dashes != other_dashes or abs(width - other_width) > 0.9


def test_the_lookup_shows_what_attention_computes() -> None:
    query, key = torch.tensor([3.0, 0]), torch.tensor([[0.0, 1], [1, 0], [0, 0]])
    weights = (key @ query).softmax(dim=0)
    found = weights @ torch.tensor([[0.0, 4], [7, 0], [0, 0]])
    words = [text.text for text in tree("lookup").iter(f"{SVG}text")]
    assert [word for word in words if re.fullmatch(r"0\.\d{3}", word or "")] == [f"{w:.3f}" for w in weights.tolist()]
    assert "found ({:.1f}, {:.1f})".format(*found.tolist()) in words


@pytest.mark.slow
def test_nothing_lies_on_the_words_and_a_drawing_with_faults_is_found_out(page: Page) -> None:
    bad = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 360 180" font-size="12" text-anchor="middle">
    <text x="100" y="60">crossed out</text><path d="M50 56L150 56" stroke="black" stroke-width="1.4"/>
    <text x="100" y="90">one</text><text x="104" y="92">another</text>
    <text x="200" y="134">far too long for it</text><rect x="180" y="120" width="40" height="20" stroke="black"/>
    <text x="350" y="160">cut off</text></svg>"""
    kinds = {fault.split(":")[0] for fault in faults(page, bad)}
    assert kinds == {"a line through", "on each other", "over the edge of a box", "outside"}
    assert [
        (name, fault) for name in NAMES for fault in faults(page, (FOLDER / f"{name}.svg").read_text("utf-8"))
    ] == []


def test_a_page_holds_the_drawing_itself() -> None:
    page = document(
        nodes.figure("", nodes.image(uri="book/_static/drawings/mask.svg"), nodes.caption("", "A caption")),
        nodes.image(uri="book/_static/translation.svg", alt="Another picture"),
    )
    app = SimpleNamespace(srcdir=FOLDER.parents[2])
    book_charts.embed_drawings(app, page, "page")  # type: ignore[arg-type]
    assert [node["uri"] for node in page.findall(nodes.image)] == ["book/_static/translation.svg"]
    raw = next(page.findall(nodes.raw))
    assert raw["format"] == "html"
    assert raw.astext() == (FOLDER / "mask.svg").read_text("utf-8")


def test_the_description_is_the_text_for_a_notebook() -> None:
    text = drawn(FOLDER / "shift_right.svg")
    assert text.startswith("Shifted right: The target with both marks is <bos> sieben")
    assert drawn(STATIC / "translation.svg") == ""


def test_one_drawing_shows_the_whole_model() -> None:
    """Around each of the five sub-layers a residual arrow: thick and solid, and so many more than without."""
    words = [text.text for text in tree("transformer").iter(f"{SVG}text")]
    assert words.count("add & norm") == words.count("dropout") - 2 == 5  # two more behind the embeddings
    arrows = [part for part in tree("transformer").iter(f"{SVG}path") if part.get("d", "").count("Q") == 2]
    assert sum("--drawing-state" in part.get("stroke", "") for part in arrows) == 5
