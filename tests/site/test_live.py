"""The page `live` in a browser: what it computes is what the library computes, by keyboard and without a server.

Needs `make book` and Chromium, as conftest.py says. The page is opened twice: from a server, where all is checked,
and from a file.
"""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from browser import (
    ROOT,
    SITE,
    TRANSLATED,
    alone,
    assert_map_shows,
    at_rest,
    axe_findings,
    load_translator,
    translated,
    visited,
)
from edited import Switches, edited, sentences
from playwright.sync_api import BrowserContext, Page

from transformer_lib.data import english_number
from transformer_lib.decoding import beam_search, greedy_decode, hypothesis_attention
from transformer_run.translator import Translator
from workshop.site import book_live

pytestmark = pytest.mark.slow

RESULTS = ROOT / "experiments" / "results"
NAMES = ("number_words_en_de", "tatoeba_de_en", "tatoeba_en_de", "parser_en_en")
LOAD = "LiveTranslator.loadTranslator(document.getElementById('live-translator').dataset.static, name);"
# Each translator is made once, for the page and for the tests.
KEPT = """() => {
  globalThis.translators = {};
  const load = LiveTranslator.loadTranslator;
  LiveTranslator.loadTranslator = async (folder, name) => translators[name] ??= await load(folder, name);
}"""
ODD = [
    "",
    " ",
    "Straße, Äpfel, über!",
    "STRASSE ÜBER ÄPFEL",
    "a\u0308pfel",  # ä in two characters
    "  viele   Leerzeichen\tund\nZeilen  ",
    "\u00a0hart\u2003breit\u3000",
    "\ufeffBOM \x1c \x85 x",
    "🙂 👩‍👩‍👧 日本語",
    "<eos> <bos> <unk> <pad>",
    "▁unter▁strichen▁",
    "Hal\u00adlo, \u200bich\u2060 bin\ufe0f \u200eda\U000e0100.\ufeff",
    "e\u200b\u0301 \u061c\u2066می\u200cخواهم\u2069 क्\u200dष \ufdd0",
    "„Na?“ – sagte sie… (12:30)",
    "don't can't o'clock",
    "xyzzyqwrtz" * 20,
]
# What a translation gives, with the weights of each head as lists.
PLAIN = """({ tokens, text, attention }) => ({
  tokens, text, attention: Object.fromEntries(Object.entries(attention).map(
    ([key, heads]) => [key, heads.map(head => head.map(row => [...row]))])),
})"""


@pytest.fixture(scope="module")
def loaded(context: BrowserContext, origins: dict[str, str]) -> Iterator[Page]:
    """The page with number words loaded in it, and all models at hand as `translators`."""
    with visited(context, origins["http"], "live") as page:
        alone(page, "#live-translator")
        page.evaluate(KEPT)
        page.focus("[name=live-name]:checked")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # Load
        page.wait_for_selector(".live-text:not([hidden])", timeout=60_000)
        assert page.evaluate("document.activeElement.id") == "live-text"
        for size in (4, 1):  # nothing is translated yet: nothing happens
            page.check(f"[name=live-search][value='{size}']")
            assert page.locator(".live-result").is_hidden()
        page.evaluate(f"async names => {{ for (const name of names) await {LOAD} }}", list(NAMES))
        yield page


@contextmanager
def chosen(page: Page, name: str) -> Iterator[None]:
    """Another translator, and then number words again, as the other tests need them."""
    page.check(f"[name=live-name][value={name}]")
    load_translator(page)
    yield
    page.check(f"[name=live-name][value={NAMES[0]}]")


def turn(page: Page, switches: Switches) -> None:
    """Set the page's own switches of number words, those alone that stand otherwise."""
    for box in page.locator(".live-heads input").all():
        place = (box.get_attribute("name"), int(box.get_attribute("value") or ""))
        box.set_checked(place not in switches.off)
    for selector, factor in ((".live-scores", switches.scores), (".live-positions", switches.positions)):
        if float(page.input_value(selector)) != factor:
            page.select_option(selector, f"{factor:g}")


def corpus() -> list[str]:
    """The recorded sentences of both languages, and what nobody would type."""
    texts = list(ODD)
    for name in NAMES[1:]:
        for example in json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["examples"]:
            texts += [example["source"], example["reference"]]
    return texts


def test_the_page_says_how_much_each_model_will_be(loaded: Page) -> None:
    shown = loaded.inner_text(".live-load")
    for name in NAMES:
        size = len(gzip.compress((SITE / "_static" / "live" / f"{name}.js").read_bytes(), 6))
        assert size < 5_000_000
        assert f"({size / 1e6:.1f} MB)" in shown


def test_it_works_by_keyboard(loaded: Page) -> None:
    loaded.focus("#live-text")
    loaded.keyboard.press("ControlOrMeta+a")
    loaded.keyboard.type("21")
    loaded.keyboard.press("Enter")
    loaded.wait_for_function(TRANSLATED)
    assert loaded.inner_text(".live-source").replace("\n", "").replace(" ", "") == "twentyone<eos>"
    assert loaded.inner_text(".live-translation") == "ein und zwanzig"
    assert loaded.locator(".live-steps tbody tr").count() == 4
    assert loaded.get_attribute(".live-translation", "aria-live") == "polite"

    before = loaded.inner_text(".live-chosen")
    loaded.focus("[name=live-head]:checked")
    loaded.keyboard.press("ArrowRight")
    after = loaded.inner_text(".live-chosen")
    assert (before, after) == tuple(f"Decoder, cross-attention, layer 2, head {number}" for number in (2, 3))
    assert after in loaded.inner_text(".live-large caption")
    rows = loaded.eval_on_selector_all(".live-most tbody th", "cells => cells.map(cell => cell.textContent)")
    assert rows == ["<bos> → ein", "ein → und", "und → zwanzig", "zwanzig → <eos>"]

    # What stands in every cell of the chosen head, by the library.
    translator = Translator.load("number_words_en_de")
    source = torch.tensor([[*translator.source_tokenizer.encode("twenty one"), 2]])
    tokens = greedy_decode(translator.model, source)[0].tolist()
    weights = hypothesis_attention(translator.model, source, tokens)["decoder.1.cross"][0, 2]
    assert_map_shows(loaded, weights)
    most = loaded.eval_on_selector_all(".live-most tbody tr", "rows => rows.map(row => row.children[1].textContent)")
    assert most == [["twenty", "one", "<eos>"][i] for i in weights.argmax(dim=-1).tolist()]
    sizes = loaded.eval_on_selector_all(".live-maps canvas", "maps => maps.map(map => [map.height, map.width])")
    assert sizes == [[3, 3]] * 8 + [[4, 4]] * 8 + [[4, 3]] * 8


def test_another_choice_sends_the_sentence_another_way(loaded: Page) -> None:
    assert translated(loaded, "one") == "ein"
    other = loaded.locator(".live-steps tbody tr").first.locator("button", has_text="eins")
    other.focus()
    loaded.keyboard.press("Enter")
    loaded.wait_for_function("document.querySelector('.live-translation').textContent === 'eins'")
    assert loaded.evaluate("document.activeElement.textContent").startswith("eins ")


def test_next_token_takes_one_step(loaded: Page) -> None:
    loaded.fill("#live-text", "forty seven")
    texts = []
    for count in (1, 2, 3, 4):
        loaded.click(".live-next")
        loaded.wait_for_function(f"document.querySelectorAll('.live-steps tbody tr').length === {count}")
        texts.append(loaded.inner_text(".live-translation"))
    assert texts == ["sieben …", "sieben und …", "sieben und vierzig …", "sieben und vierzig"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing to translate"),
        ("1000000", "number words go from 0 to 999,999"),
        ("0", "Zero was not among the numbers"),
        ("Zero.", "Zero was not among the numbers"),
        ("one " * 78, "79 tokens; this page takes up to 78"),
        ("x" * 1001, "1001 characters; this page takes up to 1000"),
    ],
)
def test_what_it_cannot_translate_it_says(loaded: Page, text: str, message: str) -> None:
    loaded.fill("#live-text", text)
    loaded.focus("#live-text")
    loaded.keyboard.press("Enter")
    assert message in loaded.inner_text("#live-problem")


def test_a_text_stays_a_text_and_its_unknown_words_are_named(loaded: Page) -> None:
    title, elements = (
        loaded.title(),
        "document.querySelectorAll('#live-translator :is(img, script, svg[onload])').length",
    )
    before = loaded.evaluate(elements)
    for text in (
        "<img src=x onerror=document.title=1>",
        "</textarea><script>document.title = 1</script>",
        "forty <svg/onload=document.title=1> seven",
        "forty bananas",
    ):
        loaded.fill("#live-text", text)
        loaded.focus("#live-text")
        loaded.keyboard.press("Enter")
        assert "Never seen in training" in loaded.inner_text(".live-unknown")
        assert (loaded.title(), loaded.evaluate(elements)) == (title, before)
    assert "Never seen in training: bananas." in loaded.inner_text(".live-unknown")
    assert loaded.inner_text("#live-problem") == ""


def test_the_tokenizers_cut_as_the_librarys_do(loaded: Page) -> None:
    texts = corpus()
    assert len(texts) > 400
    for name in NAMES:
        tokenizer = Translator.load(name).source_tokenizer
        found = loaded.evaluate(
            "([name, texts]) => texts.map(text => translators[name].sourceTokenizer.encode(text))", [name, texts]
        )
        expected = [tokenizer.encode(text) for text in texts]
        wrong = [text for text, a, b in zip(texts, found, expected, strict=True) if a != b]
        assert wrong == []
        target = Translator.load(name).target_tokenizer
        rows = [[i % len(target) for i in ids] for ids in expected]
        decoded = loaded.evaluate(
            "([name, rows]) => rows.map(ids => translators[name].targetTokenizer.decode(ids))", [name, rows]
        )
        assert decoded == [target.decode(ids) for ids in rows]


def test_numbers_are_spelled_as_the_library_spells_them(loaded: Page) -> None:
    numbers = [*range(2000), *range(2000, 1_000_000, 997), 999_999]
    found = loaded.evaluate("numbers => numbers.map(LiveTranslator.englishNumber)", numbers)
    assert found == [english_number(number) for number in numbers]
    spelled = {
        "447": english_number(447),
        " 12,345. ": english_number(12_345),
        "12 345": english_number(12_345),
        "3 4": "3 4",
        "Forty-seven.": "forty seven",
        "one hundred and five": "one hundred five",
        "Forty bananas": "Forty bananas",
        "and": "and",
    }
    found = loaded.evaluate("texts => texts.map(LiveTranslator.withNumbersSpelled)", list(spelled))
    assert found == list(spelled.values())


def test_another_search_translates_anew(loaded: Page) -> None:
    sentence = "Dieses Buch ist so leicht, dass sogar ein Kind es lesen kann."
    german = Translator.load("tatoeba_de_en")
    one, four = (german.translate([sentence], beam_size=size)[0] for size in (1, 4))
    assert one != four
    loaded.set_viewport_size({"width": 390, "height": 844})
    with chosen(loaded, NAMES[1]):
        loaded.check("[name=live-search][value='4']")  # no text of this language is translated yet: nothing happens
        assert loaded.locator(".live-result").is_hidden()
        loaded.check("[name=live-search][value='1']")
        assert translated(loaded, sentence) == one
        top, bottom = (loaded.locator(name).bounding_box() or {} for name in ("#live-text", ".live-translation"))
        assert bottom["y"] + bottom["height"] - top["y"] < 400  # what an open keyboard leaves of a phone
        for size, wanted in ((4, four), (1, one)):
            loaded.check(f"[name=live-search][value='{size}']")
            loaded.wait_for_function(
                "wanted => document.querySelector('.live-translation').textContent === wanted", arg=wanted
            )
            way = loaded.locator(".live-steps :is(mark, [aria-pressed=true] b)").all_inner_texts()
            assert "".join(way).removesuffix("<eos>").replace("▁", " ").strip() == wanted
            assert loaded.evaluate("document.querySelector('.live-steps').getBoundingClientRect().right") <= 390
    loaded.set_viewport_size({"width": 1280, "height": 900})


def assert_equal_weights(found: dict[str, list[Any]], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for key, weights in expected.items():
        torch.testing.assert_close(torch.tensor(found[key]), weights[0], atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("name", "count"), [(NAMES[0], 20), *(pytest.param(name, 15, marks=pytest.mark.deep) for name in NAMES[1:])]
)
def test_translations_and_their_weights_are_the_librarys(loaded: Page, name: str, count: int) -> None:
    translator = Translator.load(name)
    texts = sentences(name, count)
    assert len(texts) == count
    found = loaded.evaluate(  # the weights of the first sentence: there are many
        f"""async ([name, texts]) => {{
            const found = [];
            for (const [i, text] of texts.entries())
                for (const beamSize of i % 3 ? [1] : [1, 4]) {{
                    const one = await translators[name].translate(text, beamSize);
                    found.push([text, beamSize, ({PLAIN})(i ? {{ ...one, attention: {{}} }} : one)]);
                }}
            return found;
        }}""",
        [name, texts],
    )
    for text, beam_size, page in found:
        source = torch.tensor([[*translator.source_tokenizer.encode(text), 2]])
        decode = greedy_decode if beam_size == 1 else beam_search
        assert page["tokens"] == decode(translator.model, source)[0].tolist(), text
        assert page["text"] == translator.target_tokenizer.decode(page["tokens"])
        if text == texts[0]:
            assert_equal_weights(page["attention"], hypothesis_attention(translator.model, source, page["tokens"]))


def test_the_tree_that_the_parser_writes_is_drawn(loaded: Page) -> None:
    as_tokens = """() => {
        const inside = box => box.matches('span') ? ['XX']
            : [`(${box.children[0].textContent}`, ...[...box.children[1].children].flatMap(inside),
               `)${box.children[0].textContent}`];
        return inside(document.querySelector('.live-tree > .live-constituent')).join(' ');
    }"""
    with chosen(loaded, NAMES[3]):
        for sentence in ("the girl saw the king with a telescope", "the girl saw the king with a beard"):
            loaded.fill("#live-text", sentence)
            loaded.click(".live-next")
            loaded.wait_for_selector(".live-tree .live-open b >> text=S")
            translation = translated(loaded)
            assert loaded.evaluate(as_tokens) == translation
            assert loaded.locator(".live-tree span").all_inner_texts() == sentence.split()
            assert loaded.locator(".live-open").count() == 0


def test_translation_maps_and_figure_follow_the_switches(loaded: Page) -> None:
    translator, [texts, wanted] = Translator.load(NAMES[0]), zip(*book_live.hundred(NAMES[0])["pairs"], strict=True)
    translated(loaded, "four hundred forty seven")
    loaded.evaluate("document.querySelector('.live-surgery details').open = true")
    loaded.click(".live-count")
    for switches in (
        Switches(),
        Switches((("decoder.1.cross", 0),), positions=0.0),
        Switches(tuple(("decoder.1.cross", head) for head in range(1, 4)), scores=4.0),
    ):
        turn(loaded, switches)
        with edited(translator.model, switches) as model:
            translator.model, whole = model, translator.model
            right = sum(a == b for a, b in zip(translator.translate(list(texts)), wanted, strict=True))
            [translation] = translator.translate(["four hundred forty seven"])
            source = torch.tensor([[*translator.source_tokenizer.encode("four hundred forty seven"), 2]])
            tokens = greedy_decode(model, source)[0].tolist()
            weights = hypothesis_attention(model, source, tokens)["decoder.1.cross"][0, 1]
            translator.model = whole
        figure = f"{right} of 100 are right. Of the untouched model: 100."
        loaded.wait_for_function("words => document.querySelector('.live-figure').textContent === words", arg=figure)
        assert loaded.inner_text(".live-translation") == translation
        assert loaded.inner_text(".live-echo") == f"four hundred forty seven → {translation}"
        loaded.check("[name=live-head][value='decoder.1.cross/1']", force=True)
        assert_map_shows(loaded, weights)
        off = loaded.eval_on_selector_all(".live-off input", "radios => radios.map(radio => radio.value)")
        assert off == [f"{name}/{head}" for name, head in switches.off]
        lists = loaded.locator(".live-sorted")
        buttons = [lists.nth(i).locator("button").count() for i in (0, 1) if lists.nth(i).is_visible()]
        assert buttons == [count for count in (right, 100 - right) if count]


def test_the_count_can_be_stopped_and_a_number_of_its_lists_translated(loaded: Page) -> None:
    loaded.evaluate("document.querySelector('.live-surgery details').open = true")
    loaded.select_option(".live-scores", "2")  # a setting that no other test has counted
    # It may count already, where another test has asked for it.
    loaded.evaluate("document.querySelector('.live-progress').hidden && document.querySelector('.live-count').click()")
    loaded.click(".live-count")
    assert loaded.inner_text(".live-figure") == "Stopped."
    assert loaded.inner_text(".live-count") == "Translate the hundred"
    loaded.select_option(".live-scores", "0.5")
    loaded.wait_for_function(TRANSLATED)
    assert loaded.inner_text(".live-figure") == ""  # nobody has asked for it again
    loaded.click(".live-count")
    loaded.wait_for_function("document.querySelector('.live-figure').textContent.includes('of 100 are right')")
    loaded.click(".live-sorted:not([hidden]) summary")
    button = loaded.locator(".live-sorted button").first
    button.click()
    assert loaded.input_value("#live-text") == button.inner_text()
    loaded.click(".live-factors [type=reset]")
    loaded.wait_for_function("document.querySelector('.live-figure').textContent.startsWith('100 of 100')")
    assert loaded.input_value(".live-scores") == "1"


def test_the_switches_work_by_keyboard_on_a_phone_and_axe_finds_nothing(loaded: Page) -> None:
    loaded.set_viewport_size({"width": 390, "height": 900})
    loaded.evaluate("document.querySelector('.live-surgery details').open = false")
    loaded.focus(".live-search input:checked")
    loaded.keyboard.press("Tab")
    loaded.keyboard.press("Enter")  # opens the box
    loaded.keyboard.press("Tab")
    loaded.keyboard.press("Space")
    assert loaded.evaluate("[document.activeElement.name, document.activeElement.checked]") == ["encoder.0.self", False]
    for _ in range(4):
        loaded.keyboard.press("Tab")
    states = "boxes => boxes.map(box => box.checked)"
    for on in (False, True):
        words = f"Encoder, self-attention, layer 1, heads: all {'on' if on else 'off'}"
        assert loaded.evaluate("document.activeElement.ariaLabel") == words
        loaded.keyboard.press("Enter")
        assert loaded.eval_on_selector_all("[name='encoder.0.self']", states) == [on] * 4
    loaded.wait_for_function(TRANSLATED)
    loaded.evaluate("document.querySelectorAll('.live-surgery details').forEach(box => { box.open = true; })")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert loaded.evaluate(wide) == 0
    for theme in ("light", "dark"):
        loaded.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        at_rest(loaded)
        assert axe_findings(loaded, "#live-translator") == []
    loaded.evaluate("document.documentElement.dataset.theme = 'light'")
    loaded.set_viewport_size({"width": 1280, "height": 900})


def test_it_works_from_a_file_too(context: BrowserContext, origins: dict[str, str]) -> None:
    with visited(context, origins["file"], "live", slowly=True) as page:
        load_translator(page)
        assert translated(page) == "sieben und vierzig"
        page.click(".live-surgery summary")
        page.click(".live-count")
        page.wait_for_function("document.querySelector('.live-figure').textContent.startsWith('100 of 100')")
