"""The experiment on Multi30k: every stage at a tiny size, its scores, and what it has recorded."""

import json
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import multi30k
from experiments.by_command import precision_on
from transformer_lib.data import load_pairs
from transformer_lib.evaluation import bleu

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
RECORDED = [path for name in multi30k.CONFIGS if (path := RESULTS / f"multi30k_{name}.json").exists()]
ORIGIN = {"command", "commit", "seed", "device", "threads", "versions", "date", "seconds"}


@pytest.mark.deep
@pytest.mark.usefixtures("multi30k")
def test_one_command_goes_from_raw_text_to_signed_scores(tmp_path):
    command = [sys.executable, "experiments/multi30k.py", "--smoke", "--device", "cpu", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "multi30k_smoke.json").read_text("utf-8"))
    (run,) = result["runs"]
    assert result.keys() >= ORIGIN
    assert run["trained"].keys() >= ORIGIN
    config = multi30k.CONFIGS["smoke"]
    assert run["steps"] == config.training["num_steps"]
    assert run["validation"]["step_num"] == [8, 16, 24]
    assert run["trained"]["workers"] == 1
    assert run["tokens_per_second"] > 0
    # On the validation set, before the test sets are read.
    beams = {name: found["cased"]["bleu"] for name, found in run["val"].items() if name.startswith("beam")}
    assert len(beams) == len(multi30k.BEAMS) + len(multi30k.MEANS) - 1
    assert beams[run["chosen"]] == max(beams.values())
    for split in multi30k.TESTS:
        for how, name in (("beam", run["chosen"]), ("greedy", "greedy, latest")):
            path = tmp_path / "multi30k_smoke" / f"en-de.seed0.{split}.{how}.txt"
            lines = path.read_text("utf-8").removesuffix("\n").split("\n")
            assert len(lines) == config.sentences
            references = [text for _, text in load_pairs("multi30k", split, "en", "de")][: config.sentences]
            assert multi30k.scores(lines, references, "de") == run["test"][split][name]
    # Done once, not done again: the second call only gathers what the first one left.
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert "training" not in again.stderr
    assert json.loads((tmp_path / "multi30k_smoke.json").read_text("utf-8"))["runs"] == [run]


def test_a_run_has_ended_with_all_its_steps_or_with_its_patience_and_is_only_read(tmp_path):
    config = replace(multi30k.CONFIGS["smoke"], patience=2)
    task = multi30k.Task(multi30k.Run("en-de", 0), config, tmp_path, Namespace(), [])
    assert not task.has_ended()
    path, said = tmp_path / "metrics.jsonl", ""
    for step_num, perplexity, ended in ((8, 9.0, False), (9, None, False), (16, 9.5, False), (20, 9.2, True)):
        said += json.dumps({"step_num": step_num} | ({"val_perplexity": perplexity} if perplexity else {})) + "\n"
        path.write_text(said + '{"step_num": 24, "loss', "utf-8")  # a kill cut this line short
        assert task.has_ended() == ended
        assert path.read_text("utf-8").startswith(said + "{")
    path.write_text('{"step_num": 24, "val_perplexity": 9.0}\n', "utf-8")
    assert task.has_ended()


def test_a_change_is_made_where_its_setting_stands():
    recipe = multi30k.CONFIGS["long"]
    changed = recipe.changed(("p_drop=0.1", "vocabulary_size=500", "warmup_steps=7", "precision=bf16"))
    assert (changed.model["p_drop"], changed.vocabulary_size, changed.training["warmup_steps"]) == (0.1, 500, 7)
    assert changed.training["precision"] == "bf16"
    assert recipe.changed(()) == recipe
    with pytest.raises(ValueError, match="p_dropp"):
        recipe.changed(("p_dropp=0.1",))


def test_a_result_keeps_the_runs_that_it_has_and_sums_up_the_unchanged_ones():
    def run(seed, score, changes=()):
        ways = {"cased": {"bleu": score}}
        test = {"test": {"beam": ways, "greedy, latest": {"cased": {"bleu": score - 1}}}}
        return {"direction": "en-de", "seed": seed, "changes": list(changes), "chosen": "beam", "test": test}

    runs = multi30k.merged([run(0, 30.0), run(1, 40.0)], [run(1, 41.0), run(2, 42.0), run(0, 9.0, ["p_drop=0.2"])])
    assert [(r["seed"], tuple(r["changes"])) for r in runs] == [(0, ()), (0, ("p_drop=0.2",)), (1, ()), (2, ())]
    found = multi30k.summary(runs)["en-de"]["test"]
    assert found["beam"]["cased"] == {"mean": 37.67, "lowest": 30.0, "highest": 42.0, "seeds": 3}
    assert found["greedy"]["cased"]["highest"] == 41.0


def test_a_score_is_counted_in_three_ways():
    hypotheses, references = (
        ["Ein Mann spielt Gitarre.", "Zwei Hunde ..."],
        ["Ein mann spielt Gitarre .", "Zwei Hunde…"],
    )
    found = multi30k.scores(hypotheses, references, "de")
    assert found["cased"]["bleu"] == round(bleu(hypotheses, references).score, 2)
    assert "case:mixed" in found["cased"]["signature"]
    assert "tok:13a" in found["cased"]["signature"]
    for way in ("spacy_lower", "moses_lower"):
        assert "case:lc" in found[way]["signature"]
        assert "tok:none" in found[way]["signature"]
        assert found[way]["bleu"] > found["cased"]["bleu"]


def test_a_processor_without_bf16_trains_in_float32(monkeypatch):
    for instructions, precision in (({"avx512_bf16": True}, "bf16"), ({"avx512_bf16": False}, "fp32"), ({}, "fp32")):
        monkeypatch.setattr("torch.cpu.get_capabilities", lambda found=instructions: found, raising=False)
        assert precision_on("cpu") == precision


def test_moses_words_are_those_of_the_corpus_scripts():
    words = multi30k.moses_words("en")
    assert words("A man's “best” friend, isn't it?") == "a man &apos;s &quot; best &quot; friend , isn &apos;t it ?"
    assert multi30k.moses_words("de")("Drei Männer – z.B. Fußballer.") == "drei männer - z.b. fußballer ."


@pytest.mark.slow
@pytest.mark.usefixtures("multi30k")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_recorded_hypotheses_give_the_recorded_scores(path):
    recorded = json.loads(path.read_text("utf-8"))
    assert recorded.keys() >= ORIGIN
    for run in recorded["runs"]:
        assert run["trained"].keys() >= ORIGIN
        assert not run["trained"]["commit"].endswith("-dirty")
        name = multi30k.Run(run["direction"], run["seed"], tuple(run["changes"])).name
        source, target = run["direction"].split("-")
        for split in run.get("test", ()):
            references = [text for _, text in load_pairs("multi30k", split, source, target)]
            for how, decoding in (("beam", run["chosen"]), ("greedy", "greedy, latest")):
                said = RESULTS / path.stem / f"{name}.{split}.{how}.txt"
                hypotheses = said.read_text("utf-8").removesuffix("\n").split("\n")
                assert multi30k.scores(hypotheses, references, target) == run["test"][split][decoding]


def test_two_systems_are_compared_on_the_recorded_translations():
    """A run that is trained again must be compared again: `python experiments/compare_systems.py`."""
    runs = json.loads((RESULTS / "multi30k_recipe.json").read_text("utf-8"))["runs"]
    compared = json.loads((RESULTS / "compare_systems.json").read_text("utf-8"))["comparisons"]
    recorded = {
        (run["direction"], run["seed"], split): [
            found[how]["cased"]["bleu"] for how in ("greedy, latest", run["chosen"])
        ]
        for run in runs
        for split, found in run["test"].items()
    }
    assert {(one["direction"], one["seed"], one["split"]): one["bleu"] for one in compared} == recorded
