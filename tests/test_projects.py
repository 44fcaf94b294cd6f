"""The two projects for students: empty they earn nothing, solved everything, and a hostile one stops nobody else."""

import csv
import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path

import grade_projects
import make_projects
import pytest

import transformer_lib

ROOT = Path(__file__).resolve().parents[1]
SKELETON = ROOT / "projects" / "build_the_transformer"
SHARED = """\
causal_mask padding_mask scaled_dot_product_attention sinusoids label_smoothing_loss learning_rate greedy_decode
beam_search MultiHeadAttention FeedForward Transformer""".split()


@pytest.fixture
def skeleton(monkeypatch):
    """The module that students start from."""
    monkeypatch.syspath_prepend(str(SKELETON))
    sys.modules.pop("my_transformer", None)
    import my_transformer

    yield my_transformer
    sys.modules.pop("my_transformer")


@pytest.mark.parametrize("name", SHARED)
def test_the_skeleton_has_the_public_face_of_the_library(skeleton, name):
    mine = list(inspect.signature(getattr(skeleton, name)).parameters)
    theirs = list(inspect.signature(getattr(transformer_lib, name)).parameters)
    assert theirs[: len(mine)] == mine


def test_the_skeleton_has_the_librarys_parameters(skeleton):
    sizes = {"vocabulary_size": 13, "num_layers": 2, "d_model": 12, "d_ff": 20, "num_heads": 3, "d_k": 4, "d_v": 5}
    mine = skeleton.Transformer(skeleton.TransformerConfig(**sizes))
    theirs = transformer_lib.Transformer(transformer_lib.TransformerConfig(**sizes))
    assert {n: p.shape for n, p in mine.named_parameters()} == {n: p.shape for n, p in theirs.named_parameters()}


def test_five_bugs_sit_in_five_files_and_the_seed_chooses_them():
    chosen = [make_projects.choose(seed) for seed in range(20)]
    assert all(len({bug.file for bug in bugs}) == make_projects.NUM_BUGS for bugs in chosen)
    assert make_projects.choose(3) == make_projects.choose(3)
    assert len({tuple(bug.name for bug in bugs) for bugs in chosen}) > 15


def test_the_key_stays_outside_the_students_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_projects.py", "--out", str(tmp_path), "--seed", "5"])
    make_projects.main()
    key = json.loads((tmp_path / "find_the_bugs-key.json").read_text("utf-8"))
    given = {path: path.read_text("utf-8") for path in (tmp_path / "find_the_bugs").rglob("*") if path.is_file()}
    for bug in key:
        assert bug["wrong"] in given[tmp_path / "find_the_bugs" / "transformer_lib" / bug["file"]]
    assert not any(path.name in {"defects.py", "find_the_bugs-key.json"} for path in given)


def solved(folder: Path) -> None:
    """A submission of the first project: the library itself under the student's name."""
    package = folder / "my_transformer"
    shutil.copytree(ROOT / "transformer_lib", package, ignore=make_projects.NOT_COPIED)
    with (package / "__init__.py").open("a", encoding="utf-8") as file:
        file.write(
            "\nfrom .embeddings import TokenEmbedding\nfrom .layers import AddAndNorm, DecoderLayer, EncoderLayer\n"
        )


HOSTILE = {
    "syntax": ("def broken(:\n", "could not be imported"),
    "leaves": ("import os\nos._exit(0)\n", "without a report"),
    "loops": ("while True:\n    pass\n", "stopped after"),
    "prints": ("while True:\n    print('x' * 1000)\n", "stopped after"),
}


@pytest.mark.slow
def test_submissions_that_cannot_run_get_nothing_and_stop_nobody(tmp_path):
    for student, (source, _) in HOSTILE.items():
        (tmp_path / student).mkdir()
        (tmp_path / student / "my_transformer.py").write_text(source, "utf-8")
    (tmp_path / "empty").mkdir()
    for student, (_, remark) in {**HOSTILE, "empty": ("", "no my_transformer.py")}.items():
        never_ends = remark == "stopped after"
        marked = grade_projects.grade_build(tmp_path / student, seconds=0.5 if never_ends else 30)
        assert sum(marked.points.values()) == 0
        assert remark in marked.remark, student


@pytest.mark.slow
def test_the_empty_transformer_earns_nothing_and_the_library_everything(tmp_path):
    (tmp_path / "untouched").mkdir()
    shutil.copy(SKELETON / "my_transformer.py", tmp_path / "untouched")
    solved(tmp_path / "solved")
    one = tmp_path / "task-11"
    one.mkdir()
    source = (SKELETON / "my_transformer.py").read_text("utf-8")
    rate = "    return d_model**-0.5 * min(step_num**-0.5, step_num * warmup_steps**-1.5)"
    source = source.replace('    raise NotImplementedError("task 11: learning_rate")', rate)
    (one / "my_transformer.py").write_text(source, "utf-8")
    marks = tmp_path / "marks.csv"
    command = [sys.executable, ROOT / "scripts" / "grade_projects.py", "build_the_transformer", tmp_path]
    subprocess.run([*command, "--marks", marks], check=True, capture_output=True)
    rows = {row["student"]: row for row in csv.DictReader(marks.read_text("utf-8").splitlines())}
    assert float(rows["untouched"]["total"]) == 0
    assert float(rows["task-11"]["total"]) == 2
    tests = [name for name in rows["solved"] if name.startswith("test_")]
    assert len(tests) >= 30
    assert all(float(rows["solved"][name]) > 0 for name in tests if name != NO_POINTS), rows["solved"]


NO_POINTS = "test_nothing_is_left_to_ready_made_attention"


@pytest.mark.slow
def test_each_bug_counts_by_itself(tmp_path):
    bugs = make_projects.choose(1)
    make_projects.write_bugs(tmp_path / "first", bugs[1:])
    first = grade_projects.grade_bugs(tmp_path / "first", 60, make_projects.key(bugs))
    assert first.points[bugs[0].name] == sum(first.points.values()) == grade_projects.POINTS_A_BUG
    make_projects.write_bugs(tmp_path / "mended", [])
    mended = grade_projects.grade_bugs(tmp_path / "mended", 60, make_projects.key(bugs))
    assert sum(mended.points.values()) == 25
