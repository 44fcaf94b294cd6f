"""One writer to a folder, and its records. (What a run writes, and how it goes on: test_cli.py.)"""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch

from transformer_lib import TrainingConfig
from transformer_run import Translator
from transformer_run.checkpoints import only_writer
from transformer_run.settings import RunConfig
from transformer_run.training_run import Metrics, Run

HOLDER = """
import sys
from pathlib import Path
from transformer_run.checkpoints import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.posix
def test_a_lock_that_is_a_link_leaves_what_is_behind_it(tmp_path):
    mine, folder = tmp_path / "mine", tmp_path / "run"
    mine.write_text("my thesis")
    folder.mkdir()
    (folder / ".lock").symlink_to(mine)
    with pytest.raises(ValueError, match=r"\.lock"):
        only_writer(folder).__enter__()
    assert mine.read_text() == "my thesis"


@pytest.mark.parametrize("name", ["run", "."])
def test_a_folder_in_which_nothing_was_written_goes_unless_it_was_there_before(tmp_path, name):
    with only_writer(tmp_path / name):
        assert (tmp_path / name).exists()
    assert tmp_path.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.posix
def test_the_hold_ends_with_a_killed_process(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="run"):
            only_writer(tmp_path / "run").__enter__()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with only_writer(tmp_path / "run"):
        pass


TINY = {"num_layers": 1, "d_model": 16, "d_ff": 16, "num_heads": 2, "d_k": 8, "d_v": 8}


def tiny(precision="fp32", **training):
    settings = TrainingConfig(**{"num_steps": 4, "batch_tokens": 300, **training})
    return RunConfig(source="en", target="de", model=TINY, training=settings, validate_every=2, precision=precision)


def test_a_run_leaves_the_callers_random_numbers_as_they_were(tmp_path):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with Run.open(tmp_path, tiny(num_steps=2), "cpu", resume=False) as run:
        list(run.steps())
    with Run.open(tmp_path, tiny(num_steps=3), "cpu", resume=True) as run:
        list(run.steps())
    Translator.load(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("left", [b'{"step_num": 3, "loss', b"\x00\x00\x00\n", b"[3]\n", b"\n", b"{}\n"])
def test_what_a_kill_cut_short_and_what_comes_after_the_checkpoint_is_dropped(tmp_path, left):
    with Metrics(tmp_path) as metrics:
        for step_num in (1, 2, 3):
            metrics.write({"step_num": step_num})
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + left)
    for steps_done in (3, 2, 0):
        with Metrics(tmp_path, steps_done):
            pass
        kept = [json.loads(line) for line in path.read_text().splitlines()]
        assert kept == [{"step_num": step_num} for step_num in range(1, steps_done + 1)]


def test_validations_since_the_best_are_counted(tmp_path):
    with Metrics(tmp_path) as metrics:
        for step_num, perplexity in enumerate([9.0, 5.0, 5.0, 6.0], start=1):
            metrics.write({"step_num": step_num, "val_perplexity": perplexity})
            assert metrics.since_best == [0, 0, 1, 2][step_num - 1]
    with Metrics(tmp_path, steps_done=3) as metrics:
        assert metrics.since_best == 1


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Metrics(None) as metrics:
        metrics.write({"step_num": 1})
    assert metrics.last == {"step_num": 1}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.posix
def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "metrics.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="metrics.jsonl"):
        Metrics(tmp_path)
    assert (tmp_path / "elsewhere").read_text() == "mine"
