"""The experiment with two decoders: a command is timed whole, and the recorded scores come out again.

What is recorded of their speed is asserted where the book shows it.
"""

import json

import pytest

from experiments.engines import NAME, in_8_bits, translated
from transformer_run.translator import Translator
from workshop.lab.provenance import RESULTS

RECORD = json.loads((RESULTS / "engines.json").read_text("utf-8"))
LINES = ["Wie alt bist du?", "", "Sie schläft."]


@pytest.mark.deep
@pytest.mark.parametrize("engine", ["pytorch", "ctranslate2"])
def test_a_command_is_timed_whole(engine):
    found = translated(engine, 1, 1, LINES)
    assert found["lines"][:-1] == Translator.load(NAME).translate(LINES)
    assert found["of_the_processor"] > 0
    assert found["seconds"] > 0


@pytest.mark.deep
def test_the_scores_are_those_of_the_shipped_translator(tatoeba):
    found, recorded = in_8_bits()["bleu"], RECORD["tatoeba_test"]["bleu"]
    assert found["float32"] == recorded["float32"]
    assert found["int8"] == pytest.approx(recorded["int8"], abs=0.5)  # processors round in their own ways
