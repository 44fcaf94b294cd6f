"""The stepper in a browser: forward and back by keys, breakpoints, values, both themes, a phone, a folder on disk.

Needs what conftest.py says. What the trace holds is the matter of test_forward_trace.py.
"""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest
from browser import SITE, alone, axe_findings, turned, visited
from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.slow

SCRIPT = SITE / "_static" / "live" / "forward_trace.js"
STEP = "Number(document.querySelector('.live-status').textContent.split(' ')[1]) - 1"
HERE = "[...document.querySelectorAll('.step-place .step-here')].map(part => part.textContent)"
MARKED = "[...document.querySelectorAll('[aria-current=step][data-number]')].map(line => Number(line.dataset.number))"


@pytest.fixture(scope="module")
def trace(site: object) -> dict[str, Any]:
    """What the built site loads."""
    return json.loads(SCRIPT.read_text("utf-8").partition(",")[2].rstrip(");\n"))


@pytest.fixture(scope="module")
def begun(context: BrowserContext, origins: dict[str, str]) -> Iterator[Page]:
    """The chapter from a file, with the stepper begun by keyboard. From a server test_live_places.py loads it."""
    with visited(context, origins["file"], "encoder_decoder") as page:
        page.focus("#live-stepper .live-load button")
        page.keyboard.press("Enter")
        page.wait_for_selector("#live-stepper .live-bench:not([hidden])")
        assert page.evaluate("document.activeElement.className").endswith("step-forward")
        alone(page, "#live-stepper")
        yield page


def go(page: Page, step: int) -> None:
    page.focus(".step-range")
    page.locator(".step-range").fill(str(step + 1))
    assert page.evaluate(STEP) == step


def shape_of(trace: dict[str, Any], value: list[Any]) -> str:
    sizes = trace["tensors"][value[1]]["shape"]
    named = [axis if axis == str(size) else f"{axis}={size}" for axis, size in zip(value[2], sizes, strict=True)]
    return f"{'returned' if value[0] == 'return' else value[0]} ({', '.join(named)})"


def test_arrow_keys_go_through_every_step_and_back(begun: Page, trace: dict[str, Any]) -> None:
    go(begun, 0)
    begun.focus(".step-forward")
    begun.set_viewport_size({"width": 390, "height": 300})
    begun.keyboard.press("ArrowLeft")
    here = list[str]()
    for number, step in enumerate(trace["steps"]):
        shape = shape_of(trace, step["values"][0]) if step["values"] else "No tensor is handed over."
        lines = list(range(step["lines"][0], step["lines"][1] + 1))
        *shown, part = begun.evaluate(f"[{STEP}, {MARKED}, document.querySelector('.step-shape').innerText, {HERE}]")
        assert shown == [number, lines, shape]
        here += part
        begun.keyboard.press("ArrowRight")
    sublayers = ["self-attention", "feed-forward", "masked self-attention", "cross-attention", "feed-forward"]
    assert [part for part, _ in groupby(here) if part in sublayers] == sublayers
    assert begun.get_attribute(".step-place", "aria-label") == "You are here: decoder, linear"
    assert begun.evaluate(STEP) == len(trace["steps"]) - 1
    assert begun.inner_text("#live-stepper .step-stack").endswith("TokenEmbedding.logits in embedding")
    begun.keyboard.press("ArrowLeft")
    assert begun.evaluate(STEP) == len(trace["steps"]) - 2
    begun.set_viewport_size({"width": 1280, "height": 900})


def test_each_breakpoint_goes_to_every_call_that_meets_its_id_and_round_again(
    begun: Page, trace: dict[str, Any]
) -> None:
    go(begun, 0)
    assert begun.locator(".step-breakpoints button").all_inner_texts() == [
        found["says"] for found in trace["ids"].values()
    ]
    for one, found in trace["ids"].items():
        places = [number for number, step in enumerate(trace["steps"]) if one in step["ids"]]
        assert places
        go(begun, 0)
        button = begun.locator(".step-breakpoints").get_by_role("button", name=found["says"], exact=True)
        button.focus()
        for place in [*places, places[0]]:
            begun.keyboard.press("Enter")
            assert begun.evaluate(STEP) == place
        assert button.get_attribute("aria-current") == "step"
        assert begun.get_attribute(f".step-ids a:text-is('{one}')", "href") == found["href"]


@pytest.mark.deep
def test_next_breakpoint_over_and_out(begun: Page, trace: dict[str, Any]) -> None:
    def depth(number: int) -> int:
        frame, count = trace["steps"][number]["frame"], 0
        while frame is not None:
            frame, count = trace["frames"][frame]["caller"], count + 1
        return count

    last = len(trace["steps"]) - 1
    for number in range(0, last, 5):
        later = range(number + 1, last + 1)
        expected = {
            "next": next((i for i in later if trace["steps"][i]["ids"]), last),
            "over": next((i for i in later if depth(i) <= depth(number)), last),
            "out": next((i for i in later if depth(i) < depth(number)), last),
        }
        for name, place in expected.items():
            go(begun, number)
            begun.click(f".step-{name}")
            assert begun.evaluate(STEP) == place, (name, number)


def test_a_link_of_each_id_leads_to_its_section(trace: dict[str, Any]) -> None:
    for one, found in trace["ids"].items():
        name, _, target = found["href"].partition("#")
        page = SITE / "book" / name
        if page.exists():  # a site of a few pages has not all
            assert f'id="{target}"' in page.read_text("utf-8"), one


def test_the_weights_of_each_head_stand_in_the_map(begun: Page, trace: dict[str, Any]) -> None:
    number = max(i for i, step in enumerate(trace["steps"]) if any(name == "scores" for name, *_ in step["values"]))
    place = next(place for name, place, *_ in trace["steps"][number]["values"] if name == "scores")
    queries, keys = trace["tensors"][place]["shape"][-2:]
    go(begun, number)
    for head in range(2):
        begun.select_option(".step-part", str(head))
        first = head * queries * keys
        expected = trace["tensors"][place]["values"][first : first + queries * keys]
        cells = begun.locator(".step-map td:not(:empty)").all_inner_texts()
        assert [float(cell.replace("−", "-")) for cell in cells] == pytest.approx(expected, abs=6e-4)
        assert begun.locator(".step-map tbody th").all_inner_texts() == trace["words"]["target"]
        assert begun.locator(".step-map thead th").all_inner_texts() == trace["words"]["source"]


def test_the_numbers_of_a_wide_tensor_are_a_table_and_can_be_pointed_at(begun: Page, trace: dict[str, Any]) -> None:
    last = len(trace["steps"]) - 1
    go(begun, last)
    begun.locator(".step-numbers summary").focus()
    begun.keyboard.press("Enter")
    begun.wait_for_selector(".step-numbers table")
    tensor = trace["tensors"][trace["steps"][last]["values"][0][1]]
    rows, columns = tensor["shape"][-2:]
    names = begun.locator(".step-numbers tbody th").all_inner_texts()
    assert names == trace["vocabulary"]
    row = begun.locator(".step-numbers tbody tr").nth(names.index("sieben")).locator("td").all_inner_texts()
    expected = [tensor["values"][r * columns + names.index("sieben")] for r in range(rows)]
    assert [float(cell.replace("−", "-")) for cell in row] == expected

    strip = begun.locator(".step-strips canvas").first
    box = strip.bounding_box()
    assert box
    strip.hover(position={"x": box["width"] * (names.index("sieben") + 0.5) / columns, "y": 5})
    assert begun.inner_text(".step-map .live-note") == f"<bos>, vocabulary sieben: {expected[0]}"
    assert "the largest" in (strip.get_attribute("aria-label") or "")
    assert "vocabulary sieben" in (strip.get_attribute("aria-label") or "")
    begun.locator(".step-numbers summary").click()


def test_the_sign_of_a_value_shows_without_colour(begun: Page, trace: dict[str, Any]) -> None:
    number = next(i for i, step in enumerate(trace["steps"]) if step["values"] and step["values"][0][0] == "embedded")
    values = trace["tensors"][trace["steps"][number]["values"][0][1]]["values"]
    go(begun, number)
    halves = begun.evaluate(
        """() => { const canvas = document.querySelector('.step-strips canvas');
          const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, 2);
          const cells = Array.from({length: canvas.width}, (_, x) => x);
          const filled = half => cells.map(x => data[4 * (half * canvas.width + x) + 3] > 0);
          return [filled(0), filled(1)]; }"""
    )
    assert halves == [[value >= 0 for value in values[:64]], [value < 0 for value in values[:64]]]


def test_a_call_with_several_values_shows_the_chosen_one(begun: Page, trace: dict[str, Any]) -> None:
    number = next(i for i, step in enumerate(trace["steps"]) if "mha" in step["ids"])
    go(begun, number)
    begun.locator(".step-names").get_by_role("button", name="mask").press("Enter")
    assert begun.inner_text(".step-shape") == shape_of(trace, trace["steps"][number]["values"][3])
    assert begun.evaluate("document.activeElement.textContent") == "mask"
    begun.locator(".step-names").get_by_role("button", name="query").press("Enter")


@pytest.mark.parametrize(("theme", "width"), [("light", 390), pytest.param("dark", 1280, marks=pytest.mark.deep)])
def test_axe_finds_nothing_and_nothing_overflows(begun: Page, trace: dict[str, Any], theme: str, width: int) -> None:
    turned(begun, theme, width)
    begun.evaluate("document.querySelector('.step-numbers').open = true")
    axes = {len(trace["tensors"][step["values"][0][1]]["shape"]) if step["values"] else 0: number
            for number, step in enumerate(trace["steps"])}  # fmt: skip
    for number in axes.values():  # a step of each kind: nothing handed over, a tensor of one to four axes
        go(begun, number)
        assert axe_findings(begun, "#live-stepper") == [], number
        assert begun.evaluate("document.documentElement.scrollWidth") <= width
    begun.evaluate("document.querySelector('.step-numbers').open = false")


def test_on_paper_one_sentence_stands_in_its_place(begun: Page) -> None:
    begun.emulate_media(media="print")
    assert (
        begun.inner_text("#live-stepper").strip()
        == "On the web, this place steps through the forward pass line by line."
    )
    begun.emulate_media(media="screen")
