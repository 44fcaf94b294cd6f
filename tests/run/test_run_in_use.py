"""What a user of a run meets: Ctrl-C, names and sizes that are guessed, and what the run says at its end."""

import os
import signal
import subprocess
import sys

import pytest
import torch
from command_line import SMALL, equal, metrics_of, raising, run, weights_of

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, average_checkpoints
from transformer_lib.data import make_batch
from transformer_lib.training import adam, train
from transformer_run import training_run, translator, update
from transformer_run.translator import Translator

PAIRS = [("one", "eins"), ("two", "zwei"), ("three", "drei"), ("four", "vier")]


def start(folder, files, num_steps, *more):
    settings = ["--training", f"num_steps={num_steps}", "batch_tokens=50", "warmup_steps=10"]
    options = ["--tokenizer", "space", "--validate-every", 3]
    return run("train", folder, "--data", *files, *options, *SMALL, *settings, *more)


def test_ctrl_c_keeps_the_step_that_it_came_in_and_the_run_goes_on_to_the_bit(tmp_path, files, monkeypatch, capsys):
    assert start(tmp_path / "whole", files, 7) == 0
    real = training_run.train

    def interrupted(*arguments):
        for record in real(*arguments):
            if record.step_num == 4:
                signal.raise_signal(signal.SIGINT)
            yield record

    monkeypatch.setattr(training_run, "train", interrupted)
    assert start(tmp_path / "cut", files, 7) == 130
    assert "step 4; --resume" in capsys.readouterr().err
    assert (tmp_path / "cut" / "checkpoints" / "step-000004.safetensors").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.undo()
    assert run("train", tmp_path / "cut", "--resume") == 0
    assert equal(weights_of(tmp_path / "cut"), weights_of(tmp_path / "whole"))
    assert metrics_of(tmp_path / "cut", "seconds") == metrics_of(tmp_path / "whole", "seconds")


def test_a_second_ctrl_c_stops_at_once(tmp_path, files, monkeypatch, capsys):
    def impatient(*_):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        yield

    monkeypatch.setattr(training_run, "train", impatient)
    assert start(tmp_path / "cut", files, 7) == 130
    assert "before the first checkpoint" in capsys.readouterr().err


def test_an_ignored_ctrl_c_stays_ignored(tmp_path, files, monkeypatch):
    """As in a run that a shell has put in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with training_run.first_interrupt() as came:
            signal.raise_signal(signal.SIGINT)
            assert not came()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("limit", "warned"), [(10, True), (10_000_000, False)])
def test_a_large_model_on_a_cpu_is_warned_of_with_the_remedy(tmp_path, files, monkeypatch, capsys, limit, warned):
    monkeypatch.setattr(training_run, "LARGE", limit)
    assert start(tmp_path / "run", files, 1) == 0
    assert ("--model small" in capsys.readouterr().err) == warned


def test_a_run_ends_with_its_best_step_and_the_next_command(tmp_path, files, capsys):
    assert start(tmp_path / "run", files, 6) == 0
    said = capsys.readouterr().err.splitlines()
    best = min((r for r in metrics_of(tmp_path / "run") if "val_perplexity" in r), key=lambda r: r["val_perplexity"])
    assert f"step {best['step_num']}, validation perplexity {best['val_perplexity']:.4f}" in said[-2]
    assert said[-1].endswith(f"transformer_run evaluate {tmp_path / 'run'}")
    assert run("train", tmp_path / "run", "--resume") == 0
    assert "larger num_steps" in capsys.readouterr().err


def test_a_device_of_no_name_is_one_short_line(tmp_path, files, capsys):
    assert run("train", tmp_path / "run", "--data", *files, "--device", "gpu") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "cuda:1" in line
    assert len(line) < 160


@pytest.mark.deep
@pytest.mark.posix
def test_compiling_without_a_compiler_is_one_line(tmp_path, files):
    given = ["--data", *files, "--tokenizer", "space", "--device", "cpu", *SMALL]
    given += ["--training", "num_steps=1", "batch_tokens=50", "compile=true"]
    nowhere = {"CXX": str(tmp_path / "g++"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "transformer_run", "train", tmp_path / "run", *given]
    ended = subprocess.run(command, env=os.environ | nowhere, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "compile" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_a_sentence_that_is_none_is_named_by_its_place(numbers):
    with pytest.raises(TypeError, match=r"sentences\[1\]"):
        numbers.translate(["one", None])


@pytest.mark.parametrize(("at_terminal", "sizes"), [(True, [1, 1, 1]), (False, [3])])
def test_a_terminal_gets_each_answer_at_once(monkeypatch, stdin, at_terminal, sizes):
    chunks = []
    monkeypatch.setattr(Translator, "translate", lambda _, chunk, **__: chunks.append(len(chunk)) or chunk)
    stdin(b"one\ntwo\nthree\n")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: at_terminal, raising=False)
    assert run("translate", "number_words_en_de") == 0
    assert chunks == sizes


def test_weights_that_were_saved_on_a_gpu_are_averaged_without_one(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda _: "cuda:7")
        torch.save({"weight": torch.ones(3)}, tmp_path / "weights.pt")
    assert torch.equal(average_checkpoints([tmp_path / "weights.pt"])["weight"], torch.ones(3))


def test_gradients_are_exchanged_with_the_last_batch_of_a_step_alone(monkeypatch):
    exchanged, real = [], update.gradient_sync
    monkeypatch.setattr(update, "gradient_sync", lambda model, now: exchanged.append(now) or real(model, now))
    config = TrainingConfig(num_steps=2, accumulate=3)
    model = Transformer(TransformerConfig(vocabulary_size=9, num_layers=1, d_model=8, d_ff=8, num_heads=1, d_k=8))
    batches = [make_batch([([4], [5])])] * 6
    assert len(list(train(model, adam(model, config), batches, config, update=update.Update(model)))) == 2
    assert exchanged == [False, False, True] * 2


@pytest.mark.parametrize("error", [ImportError, KeyboardInterrupt])
def test_what_is_no_fault_of_the_file_is_not_called_one(monkeypatch, error):
    monkeypatch.setattr(translator, "load_tokenizer", raising(error))
    with pytest.raises(error):
        Translator.load("number_words_en_de")
