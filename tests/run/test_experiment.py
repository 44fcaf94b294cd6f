"""What the experiments share: the record, and the small model, whose numbers follow from the seed."""

from functools import partial
from pathlib import Path

import pytest

from transformer_lib.data import corpora
from transformer_lib.data.number_words import number_pairs
from workshop.lab import experiment
from workshop.lab.small_model import SIZES, number_words, numbers_below, train_number_words


@pytest.fixture
def few_numbers(monkeypatch):
    """A small corpus: naming 20,000 numbers takes most of the time."""
    monkeypatch.setattr(corpora, "number_pairs", partial(number_pairs, train_size=600, held_out=60))


def test_a_record_has_its_options_its_runs_and_its_provenance(monkeypatch):
    written = {}

    def write_result(name, result):
        written[name] = result
        return Path(name)

    def measured(seeds):
        return {"runs": experiment.each(lambda seed: {"seed": seed}, [(seed,) for seed in range(seeds)])}

    monkeypatch.setattr(experiment, "write_result", write_result)
    monkeypatch.setattr("sys.argv", ["table_9.py", "--seeds", "2"])
    experiment.record("table_9", "About.\n\nMore.", measured, seeds=5)
    assert written["table_9"]["runs"] == [{"seed": 0}, {"seed": 1}]
    assert {"command", "commit", "device", "versions"} <= written["table_9"].keys()


def test_a_run_that_is_done_is_not_done_again(tmp_path):
    made = []

    def run(number):
        made.append(number)
        return None if number == 3 else {"number": number, "ended": number != 2}

    cases = {f"some/{number}": (number,) for number in range(4)}
    assert [found["number"] for found in experiment.runs(tmp_path, run, cases)] == [0, 1, 2]
    assert made == [0, 1, 2, 3]
    experiment.runs(tmp_path, run, cases)
    assert made[4:] == [2, 3]  # one was cut, one gave nothing
    assert len(experiment.runs(tmp_path, run, cases | {"new": (9,)}, until=0)) == 3
    assert made[6:] == []


@pytest.mark.usefixtures("few_numbers")
def test_no_number_is_learned_and_scored():
    for words in (number_words(500, 50), numbers_below(300, 200, 100)):
        assert not set(words.learned) & set(words.scored)
        assert words.learned
        assert words.scored


@pytest.mark.usefixtures("few_numbers")
def test_the_same_seed_gives_the_same_losses():
    words, training = number_words(50, 5), {"num_steps": 2, "batch_tokens": 100}

    def losses(seed):
        return [record.loss_nats_per_token for record in train_number_words(words, SIZES, training, seed)[2]]

    assert losses(0) == losses(0) != losses(1)
