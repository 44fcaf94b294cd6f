"""Translations by the length of their sources: what is counted, and that the record is that of the recorded runs."""

import itertools
import json

from experiments.sentence_length import LENGTHS, RECORDED, by_length, parts
from workshop.lab.provenance import RESULTS

RECORD = json.loads((RESULTS / "sentence_length.json").read_text("utf-8"))


def test_each_sentence_counts_at_the_length_of_its_source():
    sources = ["eins zwei drei vier .", "eins zwei drei vier fünf sechs sieben ."]
    references = ["one two three four five six seven .", "one two three four ."]
    hypotheses = ["one two three four .", "one two three four five ."]
    short, long = by_length(sources, hypotheses, references, (1, 6, 99))  # the mark is a word of its own
    assert (short["words"], short["sentences"], short["mean_words"]) == ([1, 5], 1, 5)
    assert (long["words"], long["sentences"], long["mean_words"]) == ([6, 98], 1, 8)
    assert (short["brevity_penalty"], short["length_ratio"]) == (0.5488, 5 / 8)  # exp(1 - 8 / 5)
    assert (long["brevity_penalty"], long["length_ratio"]) == (1, 6 / 5)


def test_the_whole_has_the_recorded_scores():
    """A run that is trained again must be counted again: `python experiments/sentence_length.py`."""
    runs = json.loads((RESULTS / f"{RECORDED}.json").read_text("utf-8"))["runs"]
    wanted = {
        (run["direction"], run["seed"], split): found[run["chosen"]]["cased"]
        for run in runs
        for split, found in run["test"].items()
    }
    assert {(one["direction"], one["seed"], one["split"]) for one in RECORD["runs"]} == wanted.keys()
    for one in RECORD["runs"]:
        found = wanted[one["direction"], one["seed"], one["split"]]
        assert [one[name] for name in ("bleu", "brevity_penalty", "length_ratio")] == [
            found[name] for name in ("bleu", "brevity_penalty", "length_ratio")
        ]


def test_no_sentence_is_lost_between_the_lengths():
    for one in RECORD["runs"]:
        bands = one["by_source_length"]
        assert [band["words"] for band in bands] == [[low, high - 1] for low, high in itertools.pairwise(LENGTHS)]
        assert sum(band["sentences"] for band in bands) == one["sentences"]
    assert parts(["a b"], ["a b c"])["sentences"] == 1
