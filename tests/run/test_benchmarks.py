"""The benchmarks: the work is what it says, wrong work is refused, and the command runs from end to end."""

import json
import math
import statistics
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from benchmarks import work

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"


def test_the_batches_have_the_promised_sizes():
    shape = work.FULL.shape
    assert (shape.d_model, shape.num_layers, shape.num_heads, shape.d_ff) == (256, 3, 8, 1024)
    assert (shape.vocabulary, shape.p_drop) == (8000, 0.1)
    for batch in work.training_batches(work.FULL):
        lengths = (batch.target_output != work.PAD).sum(1)
        assert 2000 <= batch.target_tokens == int(lengths.sum()) < 2040
        assert lengths.min() >= 8
        assert lengths.max() <= 40
        assert torch.equal(batch.target_input[:, 1:][batch.target_output[:, 1:] != 0],
                           batch.target_output[:, :-1][batch.target_output[:, 1:] != 0])  # fmt: skip
        assert (batch.target_input[:, 0] == work.BOS).all()
        assert batch.source.max() < shape.vocabulary
    together = work.sources_to_decode(work.FULL, 64)
    assert len(together) == 64
    single = work.without_padding(work.sources_to_decode(work.FULL, 8))
    assert all(torch.equal(one[0], row[: one.size(1)]) for one, row in zip(single, together, strict=False))


def test_sentences_of_a_batch_are_of_like_length_where_that_is_asked():
    for batch in work.training_batches(replace(work.FULL, spread=work.KINDS["bucketed"])):
        lengths = (batch.target_output != work.PAD).sum(1)
        assert lengths.max() - lengths.min() <= 4
        assert batch.target_tokens >= 2000


def test_each_peer_counts_with_the_threads_that_suit_it():
    from benchmarks.run import summary

    rates = {"torch": {1: [2.0, 2.0], 2: [4.0, 5.0]}, "this": {1: [9.0, 8.0], 2: [1.0, 1.0]}}
    found = summary("greedy", rates)["peers"]
    assert {name: peer["threads"] for name, peer in found.items()} == {"torch": 2, "this": 1}
    assert found["this"]["ratio"] == {"median": (9 / 4 + 8 / 5) / 2, "min": 8 / 5, "max": 9 / 4}
    assert found["this"]["median_by_threads"] == {1: 8.5, 2: 1.0}


def test_a_peer_whose_loss_does_not_fall_is_refused():
    from benchmarks.peers.torch_nn import Peer
    from benchmarks.worker import Training

    class Idle(Peer):
        def train_step(self, batch, rate):
            return super().train_step(batch, 0.0)

    torch.manual_seed(0)
    with pytest.raises(work.WrongWorkError, match="loss"):
        # Without dropout the loss of the same batch stays the same to the last digit.
        Training(Idle(replace(work.TINY.shape, p_drop=0.0)), replace(work.TINY, batches=1)).prepare()


@pytest.mark.parametrize(
    "check",
    [
        *(partial(work.check_losses, losses) for losses in ([3.0, 2.0, math.nan, 1.0], [2.0] * 4, [1.0, 2.0])),
        partial(work.check_generated, [[5, 6], [7]], 2, 2),
        partial(work.check_generated, [[5, work.EOS], [7, 8]], 2, 2),
        lambda: work.check_logits((1, 2, 3), work.training_batches(work.TINY)[0], work.TINY.shape.vocabulary),
    ],
)
def test_wrong_work_is_refused(check):
    work.check_generated([[5, 6], [7, 8]], 2, 2)
    with pytest.raises(work.WrongWorkError):
        check()


def run(tmp_path, *options):
    output = tmp_path / "result.json"
    command = [sys.executable, BENCHMARKS / "run.py", "--tiny", "--output", output, *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(output.read_text("utf-8")), done.stdout


@pytest.mark.deep
def test_the_command_measures_the_peers_that_are_here(tmp_path):
    result, printed = run(tmp_path, "--peers", "this", "torch", "marian", "joeynmt")
    trainings = ["train, bucketed", "train, as they come"]
    assert all({"this", "torch", "marian"} <= set(result["tasks"][task]["peers"]) for task in trainings)
    assert not result["refused"]
    for task, base in [
        *((task, "torch") for task in trainings),
        ("greedy", "torch"),
        ("single", "torch"),
        ("beam", "marian"),
    ]:
        found = result["tasks"][task]
        assert found["base"] == base
        assert found["peers"][base]["ratio"] == {"median": 1.0, "min": 1.0, "max": 1.0}
        for peer in found["peers"].values():
            assert len(peer["rounds"]) == result["work"]["rounds"]
            assert peer["threads"] == 1
            assert peer["median"] == pytest.approx(statistics.median(peer["rounds"]), abs=1e-3)
    for peer in (peer for task in trainings for peer in result["tasks"][task]["peers"].values()):
        assert 0.1 < peer["peak_memory_gb"] < 5
    assert {told["target_tokens"] for told in result["about"].values() if "target_tokens" in told} == {
        result["about"]["this"]["target_tokens"]
    }
    assert {"command", "commit", "device", "versions", "date", "seconds"} <= set(result)
    assert "train, bucketed, target tokens/s; ratio to torch" in printed


@pytest.mark.deep
def test_the_gains_are_measured(tmp_path):
    output = tmp_path / "gains.json"
    command = [sys.executable, BENCHMARKS / "gains.py", "--tiny", "--output", output]
    subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    result = json.loads(output.read_text("utf-8"))
    assert {(found["batches"], found["threads"]) for found in result["gains"]} == {("bucketed", 1), ("as they come", 1)}
    assert all(found["quartiles"][0] <= found["median"] <= found["quartiles"][1] for found in result["gains"])
    assert result["padding"]["bucketed"] < result["padding"]["as they come"] < 1
    assert result["roofline"]["copy_gb_per_s"] > 0
