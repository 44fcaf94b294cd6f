"""The records of a GPU: every stage runs, the command ends in time, and what is recorded is whole and from a GPU."""

import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
import torch

from experiments import gpu_record, gpu_steps
from transformer_lib.weight_files import read_file
from transformer_run.translator import Translator
from workshop.lab.provenance import seal

ROOT = Path(__file__).resolve().parents[2]
RECORDED = sorted(gpu_record.RECORDS.glob("*.json"))


def check_steps(found, work):
    assert list(found["forms"]) == [form.name for form in gpu_steps.FORMS if not form.compile]
    assert [one["tokens"] for one in found["larger"].values()] == [work.larger - work.larger % gpu_steps.LENGTH] * 2
    for one in (*found["forms"].values(), *found["larger"].values()):
        if "out_of_memory" in one or "error" in one:
            continue
        assert 0 < one["slowest"] <= one["tokens_per_second"] <= one["fastest"]
        assert one["tflops"] >= 0
    assert found["copy_gb_per_s"] > 0
    assert found["peak_tflops_bf16"]["measured_tflops"] > 0


@pytest.mark.deep
@pytest.mark.usefixtures("multi30k")
def test_every_stage_runs_goes_on_and_is_not_run_again(tmp_path):
    folder, out = tmp_path / "the record", tmp_path / "out"
    command = [sys.executable, "-m", "experiments.gpu_record", "--smoke", "--device", "cpu", "--minutes", "4"]
    command += ["--folder", str(folder), "--out", str(out)]

    def call():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    # The first call of a run is cut after one update: nothing comes before the run's end, and the next call goes on.
    for cut, rest in (("seed0", "seed0, seed1, check"), ("seed1", "seed1, check"), ("", "nothing")):
        assert f"left: {rest}" in call()
        if cut:
            found = gpu_record.results(folder)[cut]
            assert (found["complete"], found["ended"], found["updates"]) == (False, False, 1)
    stages = gpu_record.results(folder)
    assert list(stages) == list(gpu_record.STAGES)
    assert all(stage["complete"] and stage["seconds"] >= 0 for stage in stages.values())
    check_steps(stages["steps"], gpu_steps.SMOKE)
    # The same model and batch: the forms begin with the same loss.
    forms = stages["steps"]["forms"] | stages["compiled"]["forms"]
    assert list(forms) == [form.name for form in gpu_steps.FORMS]
    first = [found["loss_first_last"][0] for found in forms.values()]
    assert max(first) - min(first) < 0.1
    check_oracle(stages["check"])
    assert stages["check"]["resumed"]["largest_difference"] == 0
    assert stages["trial"]["faster"] in ("tf32", "bf16")
    assert (stages["seed1"]["ended"], stages["seed1"]["updates"]) == (True, 24)
    assert "done" not in call()
    check_files(out, folder)


def check_files(out, folder):
    """At most eight, of which another machine makes the scores: texts, and of each run last weights and mean."""
    assert len([path for path in out.rglob("*") if path.is_file()]) == 6
    run = folder / "multi30k" / "smoke" / "en-de.seed0"
    for which in ("latest", "average"):
        found = read_file(out / f"en-de.seed0.{which}" / "model.safetensors").weights
        assert {weight.dtype for weight in found.values()} == {torch.float16}
        ours, theirs = (Translator.load(*source) for source in ((out / f"en-de.seed0.{which}",), (run, "cpu", which)))
        for own, other in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
            assert torch.allclose(own, other, rtol=1e-3, atol=1e-6)
    with tarfile.open(out / "texts.tgz") as archive:
        archive.extractall(out / "unpacked", filter="data")
    assert (out / "unpacked" / "seed1.json").exists()
    translated = "multi30k/smoke/en-de.seed0/translated.json"
    assert (out / "unpacked" / translated).read_text("utf-8") == (folder / translated).read_text("utf-8")


def check_oracle(found):
    for precision, differences in found["differs_from_the_cpu"].items():
        assert max(differences.values()) <= found["bounds"][precision]


def test_without_a_gpu_nothing_is_recorded(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu_record.py"])
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit, match="GPU"):
        gpu_record.main()


@pytest.mark.deep
@pytest.mark.posix
@pytest.mark.parametrize("patience", ["", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_a_stage_that_hangs_is_killed_with_all_that_it_started(tmp_path, monkeypatch, patience):
    monkeypatch.setattr(gpu_record, "GRACE", 0.5)
    mark = tmp_path / "alive"
    child = f"{patience}import time, pathlib\nwhile True: pathlib.Path({str(mark)!r}).touch(); time.sleep(0.05)"
    parent = f"{patience}import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    started = time.monotonic()
    assert gpu_record.run_within([sys.executable, "-c", parent], 2.0) is None
    assert time.monotonic() - started < 6
    mark.unlink()
    time.sleep(0.5)
    assert not mark.exists()


def test_a_seal_shows_an_edited_record():
    record = seal({"device": "a card", "stages": {"check": {"loss": 1.0}}})
    assert seal(record) == record
    record["stages"]["check"]["loss"] = 0.5
    assert seal(record) != record


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_what_is_recorded_comes_from_a_gpu_and_is_as_it_was_written(path):
    result = json.loads(path.read_text("utf-8"))
    assert result == seal(result)
    assert "CPU" not in result["device"]
    stages = result["stages"]
    assert stages["check"]["complete"]
    check_oracle(stages["check"])
    if stages["steps"]["complete"]:
        check_steps(stages["steps"], gpu_steps.FULL)
