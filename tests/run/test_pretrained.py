"""The translators that come with the package: what was recorded of them still holds."""

import itertools
import json
from functools import partial
from pathlib import Path

import pytest

from experiments import small_parser
from transformer_lib.data import load_pairs
from transformer_lib.evaluation import exact_match
from transformer_run.translator import PRETRAINED, Translator, pretrained_names

SENTENCES = ["tatoeba_de_en", "tatoeba_en_de"]
NUMBERS = "number_words_en_de"
PARSER = "parser_en_en"
RESULTS = Path(__file__).parents[2] / "experiments" / "results"


def test_sentences_both_ways_number_words_and_a_parser_come_with_the_package():
    assert pretrained_names() == [NUMBERS, PARSER, *SENTENCES]


@pytest.mark.parametrize("name", SENTENCES)
def test_a_translator_is_a_small_file_with_a_card(name):
    sizes = [path.stat().st_size for path in (PRETRAINED / name).iterdir()]
    assert sum(sizes) <= 5_000_000
    card = (PRETRAINED / name / "README.md").read_text("utf-8")
    recorded = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    for split in ("val", "test"):
        assert all(f"{score['bleu']:.2f}" in card for score in recorded[split].values())


@pytest.mark.parametrize("name", [*SENTENCES, pytest.param(PARSER, marks=pytest.mark.slow)])
def test_the_recorded_translations_come_out_again(name):
    examples = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["examples"]
    assert len(examples) == 100
    translations = Translator.load(name).translate([example["source"] for example in examples])
    assert translations == [example["hypothesis"] for example in examples]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "test", "least", "come_out", "largest"),
    [
        (NUMBERS, partial(load_pairs, "number_words", "test", "en", "de"), 0.99, "come out exactly", 300_000),
        (PARSER, partial(small_parser.pairs, "test"), 0.98, "get exactly their tree", 250_000),
    ],
)
def test_a_translator_of_a_small_language_is_as_exact_as_recorded(name, test, least, come_out, largest):
    recorded = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    sources, targets = zip(*test(), strict=True)
    exact = exact_match(Translator.load(name).translate([*sources]), [*targets])
    assert exact == recorded["exact_match"]["test"] > least
    card = (PRETRAINED / name / "README.md").read_text("utf-8")
    assert f"{100 * exact:.1f} % {come_out}" in card
    assert sum(path.stat().st_size for path in (PRETRAINED / name).iterdir()) < largest


@pytest.mark.slow
def test_the_parser_is_scored_on_sentences_that_it_has_not_learned():
    test = small_parser.pairs("test")
    known = {words for part in ("train", "val") for words, _ in small_parser.pairs(part)}
    assert not known & {words for words, _ in test}
    examples = json.loads((RESULTS / f"{PARSER}.json").read_text("utf-8"))["examples"]
    assert {(example["source"], example["reference"]) for example in examples} <= set(test)


def test_a_tool_belongs_to_the_nearest_deed_and_what_one_wears_to_a_person():
    for tree in itertools.islice(small_parser.sentences(seed=1), 300):
        for deed in (node for node in nodes(tree) if node.label == "VP" and len(node.parts) == 3):
            assert deed.parts[2].words()[-1] in small_parser.TOOLS.split()
        for person in (node for node in nodes(tree) if node.label == "NP" and node.parts[-1].label == "PP"):
            assert person.words()[-1] in small_parser.WORN.split()


def nodes(tree):
    """All constituents of a tree."""
    if not tree.is_part_of_speech:
        yield tree
        for part in tree.parts:
            yield from nodes(part)
