"""The savings of a training step on a GPU: every form runs; what is recorded was recorded on a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import gpu_steps

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "experiments" / "results" / "gpu_steps.json"


def check_form(result, work):
    assert list(result["forms"]) == [form.name for form in gpu_steps.FORMS]
    assert [found["tokens"] for found in result["batches"]] == list(work.sweep)
    for found in (*result["forms"].values(), *result["batches"]):
        if "out_of_memory" in found:
            continue
        assert 0 < found["slowest"] <= found["tokens_per_second"] <= found["fastest"]
        assert found["tflops"] >= 0
    assert result["copy_gb_per_s"] > 0
    assert result["peak_tflops_bf16"]["measured_tflops"] > 0


@pytest.mark.deep
def test_every_form_of_the_step_runs(tmp_path):
    command = [sys.executable, "experiments/gpu_steps.py", "--smoke", "--device", "cpu", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "gpu_steps.json").read_text("utf-8"))
    check_form(result, gpu_steps.SMOKE)
    # The same model and batch: the forms must begin with the same loss.
    first = [found["loss_first_last"][0] for found in result["forms"].values()]
    assert max(first) - min(first) < 0.1


def test_without_a_gpu_nothing_is_recorded(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu_steps.py", "--device", "cpu"])
    with pytest.raises(SystemExit, match="recorded on a GPU alone"):
        gpu_steps.main()


def test_a_batch_is_full_and_shifted():
    batch = gpu_steps.random_batch(gpu_steps.SMOKE.config, 96)
    assert batch.source.shape == batch.target_input.shape == (3, gpu_steps.LENGTH)
    assert batch.target_tokens == 96
    assert (batch.target_output[:, :-1] == batch.target_input[:, 1:]).all()
    assert (batch.source[:, -1] == batch.target_output[:, -1]).all()  # <eos>
    assert min(batch.source[:, :-1].min(), batch.target_input[:, 1:].min()) > 2


def test_what_is_recorded_comes_from_a_gpu():
    if not RECORDED.exists():
        pytest.skip("not yet recorded: needs a GPU")
    result = json.loads(RECORDED.read_text("utf-8"))
    check_form(result, gpu_steps.FULL)
    assert "CPU" not in result["device"]
