"""The record of two decoders: both wrote the same, the engine in less of the processor's time."""

import json

import pytest

from experiments.engines import NAME, in_8_bits, translated
from transformer_lib.run.translator import Translator
from workshop.lab.provenance import RESULTS

RECORD = json.loads((RESULTS / "engines.json").read_text("utf-8"))
LINES = ["Wie alt bist du?", "", "Sie schläft."]


def test_the_record_has_equal_translations_and_the_engine_is_faster():
    greedy, beam = RECORD["decoders"]
    assert greedy["equal"] == RECORD["lines"] == 10_000
    assert beam["beam_size"] == 4
    assert beam["equal"] > 9_900  # the length penalties differ in the last bits, and ties fall
    assert greedy["times_as_fast"]["seconds"] > 1.5
    assert beam["times_as_fast"]["seconds"] > 2.5
    for run in greedy["runs"] + beam["runs"]:
        assert run["ctranslate2"]["seconds"] < run["pytorch"]["seconds"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pytorch", "ctranslate2"])
def test_a_command_is_timed_whole(engine):
    found = translated(engine, 1, 1, LINES)
    assert found["lines"][:-1] == Translator.load(NAME).translate(LINES)
    assert found["of_the_processor"] > 0
    assert found["seconds"] > 0


@pytest.mark.slow
def test_the_scores_are_those_of_the_shipped_translator(tatoeba):
    found, recorded = in_8_bits()["bleu"], RECORD["tatoeba_test"]["bleu"]
    assert found["float32"] == recorded["float32"]
    assert found["int8"] == pytest.approx(recorded["int8"], abs=0.5)  # processors round in their own ways
