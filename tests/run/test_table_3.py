"""The experiment on Table 3: how rows become small, its intervals, and every stage at a tiny size."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import table_3
from transformer_lib import TABLE_3

ROOT = Path(__file__).parents[2]


def test_a_small_row_keeps_the_proportions_of_the_papers():
    for name, scale in itertools.product(TABLE_3, table_3.SCALES.values()):
        paper, base = TABLE_3[name].model, TABLE_3["base"].model
        small, training = table_3.scaled(TABLE_3[name], scale, vocabulary_size=100)
        small_base, base_training = table_3.scaled(TABLE_3["base"], scale, vocabulary_size=100)
        for field in ("d_model", "d_ff", "d_k", "d_v", "num_layers", "num_heads"):
            assert getattr(small, field) * getattr(base, field) == getattr(paper, field) * getattr(small_base, field)
        assert small.positions == paper.positions
        assert training.epsilon_ls == TABLE_3[name].training.epsilon_ls
        assert training.num_steps == base_training.num_steps * (3 if name == "big" else 1)
        expected = 0.0 if paper.p_drop == 0 else scale.p_drop + paper.p_drop - base.p_drop
        assert small.p_drop == pytest.approx(expected), (name, scale)


@pytest.mark.deep
def test_every_stage_at_a_tiny_size_and_done_runs_are_not_done_again(tmp_path):
    command = [sys.executable, "experiments/table_3.py", "--smoke", "--device", "cpu", "--folder", str(tmp_path)]
    command += ["--rows", "base", "B d_k=16", "E", "--seeds", "2", "--workers", "1"]

    def run(*more):
        done = subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    result = tmp_path / "table_3_smoke.json"
    assert "0 of 6 runs are done" in run("--minutes", "0")
    assert not result.exists()
    assert run().count("seed") == 6
    first = json.loads(result.read_text("utf-8"))
    (tmp_path / "E.seed1.json").unlink()
    assert run().count("seed") == 1  # the missing one alone
    second = json.loads(result.read_text("utf-8"))
    assert {run["row"] for run in second["runs"]} == {"base", "B d_k=16", "E"}
    for one, other in zip(first["runs"], second["runs"], strict=True):
        assert (one["row"], one["seed"], one["perplexity"]) == (other["row"], other["seed"], other["perplexity"])
