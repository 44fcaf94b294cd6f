"""Training, killed again and again and resumed each time, ends as if nothing had happened."""

import random
import signal
import time

import pytest
from command_line import metrics_of
from forked_training import small_corpus, start, train_together
from safetensors.torch import load_file

from transformer_lib.weight_files import read_file
from transformer_run.checkpoints import RunCheckpoints

NUM_STEPS = 200
MODEL = ["d_model=16", "d_ff=16", "num_layers=1", "num_heads=2", "d_k=8", "d_v=8", "p_drop=0.2"]
TRAINING = ["batch_tokens=800", f"num_steps={NUM_STEPS}", "warmup_steps=20", "accumulate=2"]
OPTIONS = ["--device", "cpu", "--validate-every", "2", "--keep-last", "2"]
FIRST = ["--tokenizer", "space", *OPTIONS, "--model", *MODEL, "--training", *TRAINING]
KILLS, PATIENCE = 11, 300.0  # of one sequence; seconds: a busy machine takes one to start


def wait(process, happened, pause=0.002):
    """Look every few milliseconds, until it has happened or the process ends."""
    limit = time.monotonic() + PATIENCE
    while process.is_alive() and not happened():
        assert time.monotonic() < limit, "the process neither ends nor goes on"
        time.sleep(pause)


def lines_in(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def being_written(checkpoints):
    return checkpoints.is_dir() and any(path.suffix == ".part" for path in checkpoints.iterdir())


def kill_and_resume(folder, first, generator):
    """Kill the run KILLS times, every second time while it writes a checkpoint; then let it end.

    Returns:
        how many kills left a checkpoint half written.
    """
    metrics, checkpoints, said = folder / "metrics.jsonl", folder / "checkpoints", folder.with_suffix(".txt")
    half_written = 0
    for kill in range(KILLS):
        begun = RunCheckpoints(checkpoints).paths()
        process = start(said, str(folder), *(["--resume", "--device", "cpu"] if begun else first))
        known, more = lines_in(metrics), generator.randrange(1, 5)
        # The run first cuts off the records that its checkpoint does not know, then it goes on.
        wait(process, lambda known=known: lines_in(metrics) != known)
        seen = lines_in(metrics)
        wait(process, lambda goal=seen + more: lines_in(metrics) >= goal)
        if kill % 2:
            wait(process, lambda: being_written(checkpoints), 0.0002)
            time.sleep(generator.random() * 0.004)
        else:
            time.sleep(generator.random() * 0.05)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, said.read_text("utf-8")
        half_written += being_written(checkpoints)
        for path in RunCheckpoints(checkpoints).paths():
            read_file(path)  # whatever has a checkpoint's name is whole
    assert train_together(said, 1, str(folder), "--resume", "--device", "cpu") == [0], said.read_text("utf-8")
    return half_written


@pytest.mark.deep
def test_a_run_killed_at_random_moments_ends_with_the_same_weights_to_the_bit(tmp_path):
    whole, first = tmp_path / "whole", [*small_corpus(tmp_path), *FIRST]
    assert train_together(tmp_path / "whole.txt", 1, str(whole), *first) == [0], (tmp_path / "whole.txt").read_text()
    half_written = 0
    for seed in (0, 1):
        folder = tmp_path / f"killed{seed}"
        half_written += kill_and_resume(folder, first, random.Random(seed))
        names = {p.name for p in (folder / "checkpoints").iterdir()}
        assert names == {p.name for p in (whole / "checkpoints").iterdir()}
        for name in names:
            ours, theirs = (load_file(f / "checkpoints" / name) for f in (folder, whole))
            assert ours.keys() == theirs.keys()
            assert [key for key, tensor in ours.items() if not tensor.equal(theirs[key])] == [], name
        assert metrics_of(folder, "seconds") == metrics_of(whole, "seconds")
        assert [record["step_num"] for record in metrics_of(folder)] == list(range(1, NUM_STEPS + 1))
    assert half_written >= 3
