"""The places where a Transformer is trained in the browser: each step is the library's, and the reader stays in charge.

Needs `make book` and Chromium, as conftest.py says. What the graphs compute is the matter of test_training_graphs.py.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from browser import LAID_OUT, alone, at_rest, axe_findings, visited
from playwright.sync_api import BrowserContext, Page

from transformer_lib import Transformer
from transformer_lib.data.batches import Batch
from transformer_lib.training import adam, train
from workshop.site.training_task import MODEL, SETTINGS, SOURCE_LENGTH, TARGET_LENGTH

pytestmark = pytest.mark.slow

STATIC = "document.getElementById('live-training').dataset.static"
STEP = "+document.querySelector('.live-figures').textContent.split(' ')[1]"
LOSSES = "document.querySelector('.live-figures').textContent.split(' · ')[1]"


def begun(page: Page) -> None:
    """Load, train, and wait for the first steps."""
    page.focus(".live-load button")
    page.keyboard.press("Enter")
    page.wait_for_function(f"document.querySelector('.live-figures').textContent && {STEP} >= 2")
    assert page.evaluate("document.activeElement.className").endswith("live-go")


def paused(page: Page) -> int:
    """Pause; the step at which it stands."""
    page.focus(".live-go")
    page.keyboard.press("Enter")
    page.wait_for_function("/^Paused at step/.test(document.querySelector('.live-status').textContent)")
    return page.evaluate(STEP)


@pytest.fixture(scope="module")
def loaded(context: BrowserContext, origins: dict[str, str]) -> Iterator[Page]:
    """The chapter on training, with a training of the test's own at hand as `mine`."""
    with visited(context, origins["http"], "training") as page:
        alone(page, "#live-training")
        page.evaluate(f"async () => {{ globalThis.mine = await LiveTranslator.loadTraining({STATIC}); }}")
        yield page


@pytest.fixture(scope="module")
def bench(loaded: Page) -> Page:
    """The same page with a training of its own, paused."""
    begun(loaded)
    paused(loaded)
    return loaded


def test_each_loss_is_the_librarys_for_the_same_batches(loaded: Page) -> None:
    found: dict[str, Any] = loaded.evaluate(
        """async () => {
            mine.task.choose([21, 47], "good morning = guten Morgen");
            mine.start(3);
            const [model] = mine.models;
            const weights = [...model.weights];
            for (let i = 0; i < 8; i++) await mine.learn();
            const { source, targetInput, targetOutput } = mine.task.batch;
            const batch = [source, targetInput, targetOutput].map((ids) => Array.from(ids, Number));
            return { weights, batch, losses: model.losses };
        }"""
    )
    model = Transformer(MODEL)
    torch.nn.utils.vector_to_parameters(torch.tensor(found["weights"]), model.parameters())
    widths = (SOURCE_LENGTH, TARGET_LENGTH, TARGET_LENGTH)
    ids = [torch.tensor(row).view(-1, width) for row, width in zip(found["batch"], widths, strict=True)]
    batch = Batch(*ids, target_tokens=int((ids[2] != 0).sum()))
    assert ids[2][[21, 47]].sum() == 0
    assert ids[2][100].tolist() == [64, 65, 2, 0, 0]  # 62 words of the numbers, then good, morning, guten, Morgen
    settings = replace(SETTINGS, num_steps=8)
    steps = train(model, adam(model, settings), itertools.repeat(batch), settings)
    expected = [record.loss_nats_per_token for record in steps]
    assert found["losses"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.deep
def test_it_learns_at_least_95_of_the_100_numbers(loaded: Page) -> None:
    scores = loaded.evaluate(
        """async () => {
            mine.task.choose([], "");
            mine.start(0);
            while (mine.step < mine.task.num_steps) await mine.learn();
            await mine.judge();
            return mine.models[0].scores.at(-1);
        }"""
    )
    assert scores == {"step": 250, "learned": scores["learned"], "withheld": 0}
    assert scores["learned"] >= 95


def test_the_weights_are_drawn_as_the_librarys_and_from_the_seed(loaded: Page) -> None:
    first, is_again, is_other = loaded.evaluate(
        """() => {
            const [first, again, other] = [0, 0, 1].map(seed => LiveTranslator.initialWeights(mine.task, seed));
            return [[...first], again.every((w, i) => w === first[i]), other.every((w, i) => w === first[i])];
        }"""
    )
    assert (is_again, is_other) == (True, False)
    model, library = Transformer(MODEL), Transformer(MODEL)
    torch.nn.utils.vector_to_parameters(torch.tensor(first), model.parameters())
    for (name, ours), theirs in zip(model.named_parameters(), library.parameters(), strict=True):
        spread = [weight.detach().std(correction=0).item() for weight in (ours, theirs)]
        assert spread[0] == pytest.approx(spread[1], rel=0.05), name
        assert ours.mean().item() == pytest.approx(theirs.mean().item(), abs=0.02), name
        if "embedding" not in name:  # drawn evenly: none is larger; the embedding is drawn normally
            assert ours.abs().max().item() == pytest.approx(theirs.abs().max().item(), rel=0.02), name


def test_it_goes_and_stops_and_starts_again_by_keyboard(bench: Page) -> None:
    stopped_at = bench.evaluate(STEP)
    bench.wait_for_timeout(500)
    assert bench.evaluate(STEP) == stopped_at

    bench.focus(".live-step")
    bench.keyboard.press("Enter")
    bench.wait_for_function(f"{STEP} === {stopped_at + 1}")

    bench.focus(".live-again")
    bench.keyboard.press("Enter")
    bench.wait_for_function(f"{STEP} === 0")
    assert bench.locator(".live-cross table").count() == 0, "nobody has looked at anything yet"
    losses = []
    for button in (None, ".live-again", ".live-seed"):
        if button:
            bench.click(button)
            bench.wait_for_function(f"{STEP} === 0")
        bench.click(".live-step")
        bench.wait_for_function(f"{STEP} === 1")
        losses.append(bench.evaluate(LOSSES))
    assert losses[0] == losses[1] != losses[2]
    assert bench.locator(".live-losses polyline").count() == 1
    assert bench.locator(".live-scores polyline").count() == 2  # learned and withheld
    assert bench.locator(".live-withheld").count() == 10


PLACES = """() => {
  const top = document.getElementById('live-training').getBoundingClientRect().top;
  return ['.live-losses', '.live-cross', '.live-numbers', '.live-legend'].map((part) =>
    Math.round(document.querySelector(part).getBoundingClientRect().top - top));
}"""
MAPS = "[...document.querySelectorAll('.live-cross table')].map((map) => Math.round(map.getBoundingClientRect().left))"


@pytest.fixture(scope="module")
def front(context: BrowserContext, origins: dict[str, str]) -> Iterator[Page]:
    """The first page, training."""
    with visited(context, origins["http"], "index") as page:
        alone(page, "#live-training")
        begun(page)
        yield page


def at_each_width(page: Page, place: str) -> list[Any]:
    """Where something stands on a phone and on a wide screen."""
    found = []
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        page.evaluate(LAID_OUT)
        at_rest(page)
        found.append(page.evaluate(place))
    return found


def test_on_the_first_pages_words_are_plain_and_nothing_moves(front: Page) -> None:
    places, maps = zip(*at_each_width(front, f"[({PLACES})(), {MAPS}]"), strict=True)
    front.wait_for_function("/after 250 steps/.test(document.querySelector('.live-status').textContent)")
    later = zip(*at_each_width(front, f"[({PLACES})(), {MAPS}]"), strict=True)
    assert next(later) == places
    assert [len(two) for two in maps] == [2, 2]
    assert next(later) == tuple(pytest.approx(two, abs=4) for two in maps)
    words = front.inner_text("#live-training")
    assert "Head 2" in words
    assert [word for word in ("seed", "nats", "rate", "<", "Head 0") if word in words.split("Maps for")[0]] == []
    assert "<" not in words
    front.click(".live-again")
    front.wait_for_function(f"{STEP} === 0")
    assert tuple(at_each_width(front, PLACES)) == places


def test_a_hidden_page_pauses_and_goes_on_when_it_is_seen(front: Page) -> None:
    turn = """hidden => {
        Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    front.click(".live-again")
    front.wait_for_function(f"{STEP} === 0")
    front.click(".live-go")
    front.wait_for_function(f"{STEP} > 0")
    front.evaluate(turn, True)
    front.wait_for_function("/was hidden/.test(document.querySelector('.live-status').textContent)")
    stopped_at = front.evaluate(STEP)
    front.wait_for_timeout(500)
    assert front.evaluate(STEP) == stopped_at
    front.evaluate(turn, False)
    front.wait_for_function(f"{STEP} > {stopped_at}")
    paused(front)


@pytest.mark.parametrize(
    ("field", "typed", "message"),
    [
        (".live-withhold", "7, 100", "“100” is no number from 0 to 99"),
        (".live-withhold", "0-95", "96 of 100 numbers are withheld"),
        (".live-own", "good morning", "write a pair as good morning = guten Morgen"),
        (".live-own", "one two three four = eins", "at most 3 words on the left and 4 on the right"),
        (".live-own", "\n".join(f"word{i} = Wort" for i in range(9)), "9 pairs of your own; there is room for 8"),
        (".live-own", "\n".join(f"a{i} b{i} = c{i}" for i in range(6)), "18 new words; there is room for 16"),
    ],
)
def test_what_it_cannot_learn_from_it_says(bench: Page, field: str, typed: str, message: str) -> None:
    bench.bring_to_front()  # behind another tab it draws no frames, for which a click waits
    before = bench.input_value(field)
    bench.fill(field, typed)
    bench.click(".live-choices button")
    bench.wait_for_selector(f".live-problem:has-text('{message}')")
    bench.fill(field, before)


@pytest.mark.deep
def test_a_defect_trains_beside_the_healthy_model(context: BrowserContext, origins: dict[str, str]) -> None:
    with visited(context, origins["file"], "common_mistakes") as page:  # and from a file
        assert page.locator(".live-defect option").count() >= 8
        assert page.inner_text(".live-change") == "transformer_lib/attention.py: .softmax(dim=-1) → .softmax(dim=-2)"
        begun(page)
        paused(page)
        assert page.locator(".live-losses polyline").count() == 2
        assert page.locator(".live-model .live-large").count() == 4
        page.select_option(".live-defect", label="the past is hidden")
        page.wait_for_function("/Training/.test(document.querySelector('.live-status').textContent)")
        page.wait_for_function(f"{STEP} >= 1")
        healthy, broken = page.evaluate(LOSSES).removeprefix("loss ").split(" | ")
        assert float(healthy) > 0 < float(broken) != float(healthy)


def test_axe_finds_nothing(bench: Page) -> None:
    assert axe_findings(bench, "#live-training") == []
