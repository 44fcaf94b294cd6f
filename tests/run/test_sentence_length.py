"""Translations by the length of their references: what is counted, and that the record is that of the recorded runs."""

import itertools
import json
from types import SimpleNamespace

import torch

from experiments.sentence_length import LENGTHS, RECORDED, by_length, end_probabilities, parts
from transformer_lib import TransformerConfig
from workshop.lab.provenance import RESULTS

RECORD = json.loads((RESULTS / "sentence_length.json").read_text("utf-8"))


def test_each_sentence_counts_at_the_length_of_its_reference():
    references = ["one two three four .", "one two three four five six seven ."]
    hypotheses = ["one two three four five .", "one two three four ."]
    short, long = by_length(hypotheses, references, (1, 6, 99))  # the mark is a word of its own
    assert (short["words"], short["sentences"], short["mean_words"]) == ([1, 5], 1, 5)
    assert (long["words"], long["sentences"], long["mean_words"]) == ([6, 98], 1, 8)
    assert (short["brevity_penalty"], short["length_ratio"]) == (1, 6 / 5)
    assert (long["brevity_penalty"], long["length_ratio"]) == (0.5488, 5 / 8)  # exp(1 - 8 / 5)


def test_the_whole_has_the_recorded_scores():
    """A run or a translator that is trained again must be counted again: `python experiments/sentence_length.py`."""
    runs = json.loads((RESULTS / f"{RECORDED}.json").read_text("utf-8"))["runs"]
    wanted = {
        (run["direction"], run["seed"], split): found[run["chosen"]]["cased"]
        for run in runs
        for split, found in run["test"].items()
    }
    assert {(one["direction"], one["seed"], one["split"]) for one in RECORD["multi30k"]} == wanted.keys()
    for one in RECORD["multi30k"]:
        found = wanted[one["direction"], one["seed"], one["split"]]
        assert [one[name] for name in ("bleu", "brevity_penalty", "length_ratio")] == [
            found[name] for name in ("bleu", "brevity_penalty", "length_ratio")
        ]
    for one in RECORD["tatoeba"]:
        recorded = json.loads((RESULTS / f"{one['name']}.json").read_text("utf-8"))["test"]
        [beam] = (score for way, score in recorded.items() if way.startswith("packed, beam"))
        assert one["bleu"] == beam["bleu"]


def test_no_sentence_is_lost_between_the_lengths():
    for corpus, bounds in LENGTHS.items():
        for one in RECORD[corpus]:
            bands = one["by_reference_length"]
            assert [band["words"] for band in bands] == [[low, high - 1] for low, high in itertools.pairwise(bounds)]
            assert sum(band["sentences"] for band in bands) == one["sentences"]
    assert parts(["a b"], ["a b c"])["sentences"] == 1


class EvenModel(torch.nn.Module):
    """Finds all four tokens of its vocabulary equally probable, everywhere."""

    config = TransformerConfig(vocabulary_size=4)

    def forward(self, source, target_input):
        return torch.zeros(*target_input.shape, 4)


def test_the_end_is_counted_before_its_place_and_at_it():
    translator = SimpleNamespace(model=EvenModel(), encode=lambda pairs: [([3], [3] * len(t)) for _, t in pairs])
    found = end_probabilities(translator, [("a", "b"), ("a", "bcd")])
    assert found == {"before_the_end": (1 + 3) / 4 / 2, "at_the_end": 1 / 4}
