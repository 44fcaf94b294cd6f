"""The small faults of experiments/mutants.py: what is planted, what is counted, what the record says."""

import ast
import json
import tomllib
from pathlib import Path

import pytest

from experiments import mutants as experiment
from workshop.lab.mutants import files_of, mutants, sample
from workshop.lab.patches import copied

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [ROOT / "transformer_lib", ROOT / "transformer_run"]
FILES = files_of(*PACKAGES)
SOURCE = '''\
"""A docstring with 3 numbers."""

def f(x: int = 2, *, deep: bool = True) -> list[int]:
    """Another: 1 < 2."""
    if x < 3 and deep:
        raise ValueError(f"x = {x + 1} is too small")
    return sorted([x, 4 * x], reverse=deep)
'''
PLANTED = {
    "def f(x: int = 3, *, deep: bool = True) -> list[int]:",
    "def f(x: int = 2, *, deep: bool = False) -> list[int]:",
    'if (not (x < 3 and deep)): raise ValueError(f"x = {x + 1} is too small")',
    "if (x < 3 or deep):",
    "if (x <= 3) and deep:",
    "if x < 4 and deep:",
    "pass",
    "return sorted([x, 4 * x])",
    "return sorted([x, (4 / x)], reverse=deep)",
    "return sorted([x, 5 * x], reverse=deep)",
}


def test_a_mutant_changes_what_runs_and_no_annotation_and_no_message():
    found = mutants("f.py", SOURCE)
    planted = {mutant.after for mutant in found}
    assert planted == {after.split(": raise")[0] + ":" if ": raise" in after else after for after in PLANTED}
    for mutant in found:
        changed = mutant.applied(SOURCE)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))
        assert changed.splitlines()[mutant.line - 1].strip() == mutant.after


def test_every_mutant_of_a_sample_still_compiles():
    for mutant in sample(FILES, ROOT, 60, seed=5):
        compile(mutant.applied((ROOT / mutant.file).read_text("utf-8")), mutant.file, "exec")


@pytest.mark.slow
def test_a_sample_spreads_over_all_files_and_follows_its_seed():
    one, again, other = (sample(FILES, ROOT, 100, seed) for seed in (0, 0, 1))
    assert one == again != other
    names = {path.relative_to(ROOT).as_posix() for path in FILES}
    assert {mutant.file for mutant in one} == names
    assert all(experiment.judges(name) for name in names)


def test_every_file_of_tests_that_judges_is_there():
    judges = {judge for named in experiment.JUDGES.values() for judge in named}
    assert all((ROOT / "tests" / judge).exists() for judge in judges)
    assert all((ROOT / name).exists() for name in experiment.JUDGES)


@pytest.mark.deep
def test_a_fault_is_noticed_a_harmless_change_is_not_and_the_copy_is_whole_again(tmp_path):
    copied(tmp_path)
    file = "transformer_lib/masks.py"
    source = (ROOT / file).read_text("utf-8")
    found = {mutant.after: mutant for mutant in mutants(file, source)}
    fault = found["return ((tokens == pad_id))[:, None, None, :]"]
    harmless = fault._replace(text="(tokens.ne(pad_id))")
    own = {"own": experiment.rings(fault)["own"]}
    verdicts = [experiment.judged(tmp_path, mutant, own) for mutant in (fault, harmless)]
    assert [verdict["result"] for verdict in verdicts] == ["killed", "survived"]
    assert verdicts[0]["by"].startswith("paper/test_masks.py::test_")
    assert (tmp_path / file).read_text("utf-8") == source


def test_the_record_counts_what_it_lists_and_few_faults_are_left():
    recorded = json.loads((ROOT / "experiments/results/mutants.json").read_text("utf-8"))
    listed = recorded["mutants"]
    left = [mutant for mutant in listed if mutant["result"] == "survived" and "equivalent" not in mutant]
    assert recorded["planted"] == len(listed)
    assert recorded["noticed"] == sum(mutant["result"] in ("killed", "timed out") for mutant in listed)
    assert recorded["noticed_at_first"] == sum(m["result"] != "survived" and "at_first" not in m for m in listed)
    by = [mutant.get("ring") for mutant in listed if "at_first" not in mutant]
    assert recorded["noticed_by_own"] == by.count("own")
    assert recorded["noticed_by_quick"] == by.count("own") + by.count("quick")
    assert recorded["equivalent"] == len(listed) - len(left) - recorded["noticed"]
    assert len(left) <= 0.05 * (len(listed) - recorded["equivalent"]), left
    for file, _, name in (m["by"].partition("::") for m in listed if "at_first" in m and "by" in m):
        assert f"def {name.split('[')[0]}(" in (ROOT / "tests" / file).read_text("utf-8"), name  # written since
    real = recorded["planted"] - recorded["equivalent"]
    assert f"noticed {recorded['noticed_by_quick']} of {real}," in (ROOT / "README.md").read_text("utf-8")
    entries = tomllib.loads((ROOT / "experiments/mutants.toml").read_text("utf-8"))["equivalent"]
    assert all(entry["why"] and (ROOT / entry["file"]).exists() for entry in entries)
