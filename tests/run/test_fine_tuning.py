"""A finished translator goes on learning, on pairs of one's own."""

import pytest
import torch
from command_line import metrics_of, run

from transformer_lib import learning_rate
from transformer_run import Translator, cli

BASE = "number_words_en_de"
PAIRS = [("forty seven", "47"), ("five apples", "fünf Äpfel"), ("six", "sechs"), ("two apples", "zwei Äpfel")]


def tune(folder, files, *settings):
    options = ["--validation", *files, "--validate-every", 10]
    return run("train", folder, "--from", BASE, "--data", *files, *options, "--training", *settings)


def test_it_begins_with_the_weights_and_keeps_the_tokenizer_and_the_direction(numbers, tmp_path, files):
    assert tune(tmp_path / "run", files, "num_steps=1", "rate_factor=1e-12") == 0
    tuned = Translator.load(tmp_path / "run")
    after = tuned.model.state_dict()
    assert all(torch.allclose(w, after[name], atol=1e-7) for name, w in numbers.model.state_dict().items())
    assert tuned.source_tokenizer.to_json() == numbers.source_tokenizer.to_json()
    assert (tuned.source, tuned.target) == ("en", "de")


def test_the_optimizer_is_new_and_its_rate_is_low(tmp_path, files):
    assert tune(tmp_path / "run", files, "num_steps=2") == 0
    factor = cli.FINE_TUNING.rate_factor
    expected = [factor * learning_rate(step, 64, cli.FINE_TUNING.warmup_steps) for step in (1, 2)]
    assert [record["learning_rate"] for record in metrics_of(tmp_path / "run")] == pytest.approx(expected)
    assert factor < 1


def test_it_learns_the_new_pairs_and_can_be_resumed(tmp_path, files):
    assert tune(tmp_path / "run", files, "num_steps=20", "rate_factor=0.3", "batch_tokens=40") == 0
    assert run("train", tmp_path / "run", "--resume", "--training", "num_steps=40") == 0
    found = [record["val_perplexity"] for record in metrics_of(tmp_path / "run") if "val_perplexity" in record]
    assert found == sorted(found, reverse=True)
    assert len(found) == 4


def test_words_that_the_vocabulary_lacks_are_counted_and_named(tmp_path, files, capsys):
    assert tune(tmp_path / "run", files, "num_steps=1") == 0
    said = capsys.readouterr().err
    assert "3 of these pairs" in said
    assert "'apples' (2)" in said
    assert "'47' (1)" in said


@pytest.mark.parametrize("changes", [("--model", "d_ff=9"), ("--tokenizer", "bpe"), ("--vocabulary-size", 9)])
def test_what_the_base_fixes_is_refused_by_name(tmp_path, files, changes, refused):
    assert changes[0] in refused("train", tmp_path / "run", "--from", BASE, "--data", *files, *changes)
    assert not (tmp_path / "run").exists()


def test_without_pairs_or_a_base_it_says_what_is_missing(tmp_path, files, refused):
    assert "--data" in refused("train", tmp_path / "run", "--from", BASE)
    assert "nobody" in refused("train", tmp_path / "run", "--from", "nobody", "--data", *files)
