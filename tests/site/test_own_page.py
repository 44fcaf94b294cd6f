"""A translator of the reader's own on the page `live`: exported to a file, opened from the device, at work there.

Needs `make book` and Chromium, as conftest.py says.
"""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from browser import ROOT, assert_map_shows, translated, visited
from playwright.sync_api import BrowserContext, Page

from transformer_lib.data.number_words import english_number, german_number
from transformer_lib.decoding import greedy_decode, hypothesis_attention
from transformer_run.translator import Translator

pytestmark = pytest.mark.deep

TRAIN = (
    "--source english --target x-german --vocabulary-size 90 --validate-every 60 --model d_model=32 d_ff=64 "
    "num_layers=1 num_heads=2 d_k=16 d_v=16 p_drop=0.0 --training "
    "batch_tokens=900 warmup_steps=60 num_steps=120 rate_factor=2.0"
)


def command(*arguments: object) -> None:
    """A command line of its own: the shape checks of the test suite would stand in the exporter's way."""
    subprocess.run([sys.executable, "-m", "transformer_run", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Translator, list[str]]:
    """The file, the translator with the same weights of 8 bits, and sentences that it has not seen."""
    folder = tmp_path_factory.mktemp("own")
    pairs = [(english_number(number), german_number(number)) for number in range(1, 1000)]
    for name, part in (("train", pairs[::2]), ("test", pairs[1:160:4])):
        for side, language in enumerate(("en", "de")):
            (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in part), "utf-8")
    files, tests = ([folder / f"{name}.{language}" for language in ("en", "de")] for name in ("train", "test"))
    command("train", folder / "run", "--data", *files, *TRAIN.split())
    command("export", folder / "run", folder / "mine.page", "--to", "page", "--data", *tests)
    packed = folder / "packed"
    packed.mkdir()
    Translator.load(folder / "run").pack(packed)
    return folder / "mine.page", Translator.load(packed), tests[0].read_text("utf-8").split("\n")[:-1]


@pytest.fixture
def page(context: BrowserContext, origins: dict[str, str]) -> Iterator[Page]:
    with visited(context, origins["http"], "live") as page:
        yield page


def opened(page: Page, path: Path) -> None:
    page.set_input_files("#live-file", path)
    page.wait_for_selector(".live-text:not([hidden])", timeout=60_000)


def test_it_translates_as_python_does_under_its_own_languages(page: Page, exported: tuple) -> None:
    path, translator, sentences = exported
    opened(page, path)
    assert (
        page.inner_text(".live-load label:has(:checked)").strip() == "english to x-german, from your device (mine.page)"
    )
    assert page.input_value("#live-text") == sentences[0]
    assert page.locator(".live-examples button").all_inner_texts() == sentences[:4]
    wanted = translator.translate(sentences)
    assert len(set(wanted)) > 10
    for sentence, translation in zip(sentences[::8], wanted[::8], strict=True):
        assert translated(page, sentence) == translation
    # The maps, the table of choices and the surgery of the last one.
    source = torch.tensor([[*translator.source_tokenizer.encode(sentences[::8][-1]), 2]])
    tokens = greedy_decode(translator.model, source)[0].tolist()
    assert page.locator(".live-steps tbody tr").count() == len(tokens)
    weights = hypothesis_attention(translator.model, source, tokens)["decoder.0.cross"][0, 1]
    assert_map_shows(page, weights)
    page.click(".live-surgery summary")
    page.click(".live-count")
    every = f"{len(sentences)} of {len(sentences)} come out token for token"
    page.wait_for_function("words => document.querySelector('.live-figure').textContent.startsWith(words)", arg=every)
    page.select_option(".live-scores", "0")
    page.wait_for_function("document.querySelector('.live-figure').textContent.includes('Of the untouched model')")
    assert not page.inner_text(".live-figure").startswith(every)


def test_it_is_dropped_on_the_page_as_a_file_from_a_file(
    context: BrowserContext, origins: dict[str, str], exported: tuple
) -> None:
    path, translator, sentences = exported
    with visited(context, origins["file"], "live") as page:
        content = list(path.read_bytes())
        page.evaluate(
            """content => {
                const dataTransfer = new DataTransfer();
                dataTransfer.items.add(new File([new Uint8Array(content)], "mine.page"));
                const dropped = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
                document.querySelector(".live-status").dispatchEvent(dropped);
            }""",
            content,
        )
        page.wait_for_selector(".live-text:not([hidden])", timeout=60_000)
        assert translated(page) == translator.translate(sentences[:1])[0]


def test_one_without_sentences_has_nothing_to_try_or_to_count(page: Page, exported: tuple, tmp_path: Path) -> None:
    path = tmp_path / "plain.page"
    content = json.loads(gzip.decompress(exported[0].read_bytes()))
    content["hundred"]["pairs"] = []
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    opened(page, path)
    assert page.inner_text(".live-examples") == page.input_value("#live-text") == ""
    assert page.locator(".live-count").is_hidden()


def test_a_damaged_or_foreign_file_gets_a_clear_line_and_the_page_goes_on(
    page: Page, exported: tuple, tmp_path: Path
) -> None:
    good = exported[0].read_bytes()
    foreign = (b"null", b'{"format": "another"}', b'{"format": "transformer_lib page 1", "onnx": "AA=="}')
    damaged = (good[: len(good) // 2], good[:5000] + b"x" + good[5001:], b"<svg onload=alert(1)>", b"")
    linked = (ROOT / "book" / "_static" / "live" / "number_words_en_de.onnx.gz").read_bytes()
    words = ["damaged"] * 4 + ["ONNX"] + ["another kind"] * 2 + ["cannot run"]
    contents = [*damaged, linked, *map(gzip.compress, foreign)]
    for number, (content, word) in enumerate(zip(contents, words, strict=True)):
        path = tmp_path / f"bad-{number}.page"
        path.write_bytes(content)
        page.set_input_files("#live-file", path)
        said = page.locator(f".live-own-problem:has-text('{path.name} ')")
        said.wait_for()
        assert word in said.inner_text()
        assert page.locator("[name=live-name]").count() == 4
    opened(page, exported[0])
    assert page.inner_text(".live-own-problem") == ""
