"""A finished translator goes on learning, on pairs of one's own."""

import pytest
import torch
from command_line import metrics_of, raising, run, two_files

from transformer_lib import learning_rate
from transformer_lib.data import load_pairs, make_batch
from transformer_lib.evaluation import perplexity
from transformer_run import Translator
from transformer_run.settings import FINE_TUNING

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
    factor = FINE_TUNING.rate_factor
    expected = [factor * learning_rate(step, 64, FINE_TUNING.warmup_steps) for step in (1, 2)]
    assert [record["learning_rate"] for record in metrics_of(tmp_path / "run")[1:]] == pytest.approx(expected)
    assert factor < 1


def test_it_learns_the_new_pairs_and_can_be_resumed(tmp_path, files):
    assert tune(tmp_path / "run", files, "num_steps=20", "rate_factor=0.3", "batch_tokens=40") == 0
    assert run("train", tmp_path / "run", "--resume", "--training", "num_steps=40") == 0
    found = [record["val_perplexity"] for record in metrics_of(tmp_path / "run") if "val_perplexity" in record]
    assert found == sorted(found, reverse=True)
    assert len(found) == 5  # step 0 too


def test_the_base_is_measured_first_and_stays_the_best_when_training_makes_it_worse(numbers, tmp_path, capsys):
    pairs = load_pairs("number_words", "val", "en", "de")[:20]
    files = two_files(tmp_path, pairs, ("worse.en", "worse.de"))
    worse = ["--validate-every", 2, "--patience", 3, "--training", "num_steps=20", "rate_factor=300"]
    assert run("train", tmp_path / "run", "--from", BASE, "--data", *files, "--validation", *files, *worse) == 0
    said = capsys.readouterr().err
    first, *records = metrics_of(tmp_path / "run")
    expected = perplexity(numbers.model, [make_batch(numbers.encode(pairs))])
    assert first == {"step_num": 0, "val_perplexity": pytest.approx(expected, rel=1e-5)}
    assert f"before the first step {BASE} has validation perplexity {expected:.4f}" in said
    assert [record["step_num"] for record in records] == [1, 2, 3, 4, 5, 6]  # patience counts from step 0
    assert "none better than before: the best is step 0" in said
    kept = Translator.load(tmp_path / "run")
    assert kept.weights == "best checkpoint, step 0"
    assert all(torch.equal(w, numbers.model.state_dict()[name]) for name, w in kept.model.state_dict().items())
    # A resumed run remembers it, and that its patience is over.
    assert run("train", tmp_path / "run", "--resume", "--keep-last", 1) == 0
    assert len(metrics_of(tmp_path / "run")) == 7
    said = capsys.readouterr().err
    assert "none better than before: the best is step 0" in said
    assert "before the first step" not in said
    assert run("train", tmp_path / "run", "--resume", "--patience", 4) == 0
    assert metrics_of(tmp_path / "run")[-1]["step_num"] == 8
    assert Translator.load(tmp_path / "run").weights == "best checkpoint, step 0"


def test_what_a_killed_start_measured_does_not_count(tmp_path, files):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step_num": 0, "val_perplexity": 1.0}\n')
    assert tune(tmp_path / "run", files, "num_steps=1") == 0
    assert metrics_of(tmp_path / "run")[0]["val_perplexity"] > 2


def test_an_interrupted_run_goes_on_from_step_0(tmp_path, files, monkeypatch, capsys):
    monkeypatch.setattr("transformer_run.training_run.train", raising(KeyboardInterrupt()))
    assert tune(tmp_path / "run", files, "num_steps=2") == 130
    assert "checkpoint of step 0" in capsys.readouterr().err
    monkeypatch.undo()
    assert run("train", tmp_path / "run", "--resume") == 0
    assert [record["step_num"] for record in metrics_of(tmp_path / "run")] == [0, 1, 2]


def test_words_that_the_vocabulary_lacks_are_counted_and_named(tmp_path, files, capsys):
    assert tune(tmp_path / "run", files, "num_steps=1") == 0
    said = capsys.readouterr().err
    assert "5 of 13 words (38.46%) of the training texts" in said
    assert "'apples' (2)" in said
    assert "'47' (1)" in said


@pytest.mark.parametrize("changes", [("--model", "d_ff=9"), ("--tokenizer", "bpe"), ("--vocabulary-size", 9)])
def test_what_the_base_fixes_is_refused_by_name(tmp_path, files, changes, refused):
    assert changes[0] in refused("train", tmp_path / "run", "--from", BASE, "--data", *files, *changes)
    assert not (tmp_path / "run").exists()


def test_without_pairs_or_a_base_it_says_what_is_missing(tmp_path, files, refused):
    assert "--data" in refused("train", tmp_path / "run", "--from", BASE)
    assert "nobody" in refused("train", tmp_path / "run", "--from", "nobody", "--data", *files)
