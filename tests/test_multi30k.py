"""The experiment on Multi30k: every stage at a tiny size, its scores, and what it has recorded."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import multi30k
import pytest

from transformer_lib.data import load_pairs
from transformer_lib.evaluation import bleu

ROOT = Path(__file__).parents[1]

RESULTS = ROOT / "experiments" / "results"
SCHEMA = json.loads((ROOT / "experiments" / "multi30k.schema.json").read_text("utf-8"))
RECORDED = sorted(path for name in multi30k.CONFIGS for path in RESULTS.glob(f"multi30k_{name}*.json"))
TESTED = [path for path in RECORDED if "validation" not in path.stem]


def validate(result):
    jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(result)


@pytest.mark.slow
@pytest.mark.usefixtures("multi30k")
def test_one_command_goes_from_raw_text_to_signed_scores(tmp_path):
    command = [sys.executable, "experiments/multi30k.py", "--smoke", "--device", "cpu", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "multi30k_smoke.json").read_text("utf-8"))
    for origin in (
        result,
        *(run["trained"] for run in result["runs"]),
    ):  # a tree with changes may be tested, but not recorded
        origin["commit"] = origin["commit"].removesuffix("-dirty")
    validate(result)
    smoothed, unsmoothed = result["runs"]
    assert (smoothed["epsilon_ls"], unsmoothed["epsilon_ls"]) == (0.1, 0.0)
    assert smoothed["steps"] == multi30k.CONFIGS["smoke"].training["num_steps"]
    assert smoothed["validation"]["step_num"] == [8, 16, 24]
    lines = (tmp_path / "multi30k_smoke" / "en-de.seed0.txt").read_text("utf-8").splitlines()
    assert len(lines) == multi30k.CONFIGS["smoke"].sentences
    # Done once, not done again: the second call only gathers what the first one left.
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert "training" not in again.stderr
    runs = json.loads((tmp_path / "multi30k_smoke.json").read_text("utf-8"))["runs"]
    assert [run["trained"]["seconds"] for run in runs] == [run["trained"]["seconds"] for run in result["runs"]]
    assert [run["test"] for run in runs] == [run["test"] for run in result["runs"]]


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


def test_moses_words_are_those_of_the_corpus_scripts():
    words = multi30k.moses_words("en")
    assert words("A man's “best” friend, isn't it?") == "a man &apos;s &quot; best &quot; friend , isn &apos;t it ?"
    assert multi30k.moses_words("de")("Drei Männer – z.B. Fußballer.") == "drei männer - z.b. fußballer ."


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_run_has_the_fixed_form(path):
    validate(json.loads(path.read_text("utf-8")))


@pytest.mark.slow
@pytest.mark.usefixtures("multi30k")
@pytest.mark.parametrize("path", TESTED, ids=lambda path: path.stem)
def test_the_recorded_hypotheses_give_the_recorded_scores(path):
    for run in json.loads(path.read_text("utf-8"))["runs"]:
        name = multi30k.Run(run["direction"], run["seed"], run["epsilon_ls"]).name
        hypotheses = (RESULTS / path.stem / f"{name}.txt").read_text("utf-8").removesuffix("\n").split("\n")
        source, target = run["direction"].split("-")
        references = [text for _, text in load_pairs("multi30k", multi30k.TEST, source, target)]
        assert multi30k.scores(hypotheses, references, target) == run["test"][multi30k.HEADLINE]
