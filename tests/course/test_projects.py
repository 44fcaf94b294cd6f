"""The two projects for students: empty they earn nothing, solved everything, and a hostile one stops nobody else."""

import csv
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

import transformer_lib
from workshop.course import grade_projects, make_projects, project_tests
from workshop.course.grading import sandbox
from workshop.course.grading.submissions import Submission

ROOT = Path(__file__).resolve().parents[2]
SKELETON = ROOT / "projects" / "build_the_transformer"
RATE = "    return d_model**-0.5 * min(step_num**-0.5, step_num * warmup_steps**-1.5)"
EMPTY = (SKELETON / "my_transformer.py").read_text("utf-8")
TASK_13 = EMPTY.replace('    raise NotImplementedError("task 13: learning_rate")', RATE)
# Words and names of the student's own, which are no use of PyTorch's attention or of the library.
INNOCENT = """
# Compare with nn.MultiheadAttention and transformer_lib.
class Own:
    class MultiheadAttention:
        pass


own = Own.MultiheadAttention, nn.Linear, torch.nn.functional.softmax
"""
# What pytest would run, or be steered by, in a student's package.
OWN_TESTS = {
    "my_transformer/test_own.py": "def test_own(record_property):\n    record_property('points', 1000)\n",
    "my_transformer/conftest.py": "import os\nos._exit(0)\n",
    "my_transformer/pytest.ini": "[pytest]\naddopts = --no-such-option\n",
}
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
    mine, theirs = ([*inspect.signature(getattr(one, name)).parameters] for one in (skeleton, transformer_lib))
    assert theirs[: len(mine)] == mine


def chapters() -> list[Path]:
    """The chapters of Parts I to III, in order."""
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))["parts"]
    return [ROOT / f"{chapter['file']}.md" for part in parts[1:4] for chapter in part["chapters"]]


def test_each_chapter_of_parts_i_to_iii_closes_with_its_task():
    tests, readme = ((SKELETON / name).read_text("utf-8") for name in ("test_my_transformer.py", "README.md"))
    for number, chapter in enumerate(chapters(), start=1):
        section = chapter.read_text("utf-8").partition("## Your Transformer")[2].partition("## To take away")[0]
        for wanted in (f"**Task {number} of {len(chapters())}:**", f"python -m pytest -k test_{number}_"):
            assert wanted in section, f"{chapter.stem} lacks {wanted}: Parts I to III have a task in each chapter"
        tasks = re.findall(rf'NotImplementedError\("task {number}: (\w+)', EMPTY)
        assert tasks, chapter.stem
        assert all(f"`{name}" in section for name in tasks), (chapter.stem, tasks)
        for wanted, text in {
            f"def test_{number}_": tests,
            f"| {number} |": readme,
            f"# ── Task {number}: {chapter.stem} ": EMPTY,
        }.items():
            assert wanted in text, chapter.stem
        assert 35 <= len(section.split()) <= 90, chapter.stem


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
        assert bug["wrong"] in given[tmp_path / "find_the_bugs" / bug["file"]]
    assert not any(path.name in {"defects.py", "defects.toml", "find_the_bugs-key.json"} for path in given)


# The tasks whose functions the library has in another form or not at all.
NOT_IN_THE_LIBRARY = """
import torch
import torch.nn.functional as F

from .data.batches import pad_rows
from .embeddings import TokenEmbedding
from .layers import AddAndNorm, DecoderLayer, EncoderLayer


def shift_right(target, bos_id):
    return torch.cat([torch.full_like(target[:, :1], bos_id), target[:, :-1]], dim=1)


def look_up(scores, value):
    weights = scores.softmax(-1)
    return weights @ value, weights


def self_attention(states, w_query, w_key, w_value):
    found, weights = look_up((states @ w_query) @ (states @ w_key).mT, states @ w_value)
    return states + found, weights


def batch_of(model, pairs):
    eos, pad = model.config.eos_id, model.config.pad_id
    return tuple(pad_rows([[*pair[side], eos] for pair in pairs], pad) for side in (0, 1))


def fit(model, pairs, num_steps, warmup_steps):
    source, target = batch_of(model, pairs)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step in range(1, num_steps + 1):
        optimizer.param_groups[0]["lr"] = learning_rate(step, model.config.d_model, warmup_steps)
        optimizer.zero_grad()
        loss = label_smoothing_loss(model(source, shift_right(target, model.config.bos_id)), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def perplexity(model, pairs):
    source, target = batch_of(model, pairs)
    training = model.training
    logits = model.eval()(source, shift_right(target, model.config.bos_id))
    model.train(training)
    return label_smoothing_loss(logits, target, epsilon_ls=0.0).exp().item()
"""


def solved(folder: Path) -> None:
    """A submission of the first project: the library under the student's name, without PyTorch's own attention."""
    package = folder / "my_transformer"
    shutil.copytree(ROOT / "transformer_lib", package, ignore=make_projects.NOT_COPIED)
    shutil.rmtree(package / "interop")
    source, kernel = (package / "fast.py").read_text("utf-8"), "F.scaled_dot_product_attention(query, key, value, mask)"
    assert source.count(kernel) == 1
    (package / "fast.py").write_text(source.replace(kernel, f"{kernel.removeprefix('F.')}[0]"), "utf-8")
    names = (package / "__init__.py").read_text("utf-8").splitlines(keepends=True)
    without = "".join(line for line in names if "interop" not in line)
    (package / "__init__.py").write_text(without + NOT_IN_THE_LIBRARY, "utf-8")


def hand_in(folder: Path, files: dict[str, str]) -> Path:
    """A submission of these files."""
    for name, source in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source, "utf-8")
    return folder


def table_of(marks: Path) -> list[dict[str, str]]:
    """The rows of a table, without the first, which says what there is to earn."""
    lines = marks.read_text("utf-8-sig").splitlines()
    of, *rows = csv.DictReader(lines, delimiter=";" if ";" in lines[0] else ",")
    assert of["student"] == "of"
    return rows


def grade(
    monkeypatch: pytest.MonkeyPatch, submissions: Path, marks: Path, *options: str, project: str = make_projects.BUILD
) -> list[dict[str, str]]:
    """The rows of marks.csv."""
    arguments = [project, str(submissions), "--marks", str(marks), "--without-sandbox", *options]
    monkeypatch.setattr(sys, "argv", ["grade_projects.py", *arguments])
    grade_projects.main()
    return table_of(marks)


# Of the sandbox or the limit of a file, where the output comes before the time.
FULL = ("OSError: [Errno 28] No space left on device", "OSError: [Errno 27] File too large")


@pytest.mark.deep
@pytest.mark.parametrize("loop", ["pass", "print('x' * 1000)"])
def test_what_never_ends_is_stopped(tmp_path, loop):
    endless = hand_in(tmp_path, {"my_transformer.py": f"while True:\n    {loop}\n"})
    marked = project_tests.grade_build(endless, seconds=0.5)
    assert sum(marked.points.values()) == 0
    assert "stopped after" in marked.remark or (loop != "pass" and marked.remark.endswith(FULL))


def test_what_never_ends_takes_no_point_of_another_test(tmp_path, monkeypatch):
    asked = []

    def one_loops(_folder, names, seconds: float, most: int = 10) -> tuple[list[ElementTree.Element], str]:
        asked.append((names, most))
        if names == ["test_my_transformer.py"] or names[-1].endswith("::test_loops"):
            return [], f"stopped after {most * seconds:g} s"
        return [ElementTree.Element("testcase", name=names[0].split("::")[-1])] * ("--collect-only" not in names), ""

    points = {"test_loops": 1.0, "test_right": 2.0}
    monkeypatch.setattr(project_tests, "worth", lambda: points)
    monkeypatch.setattr(project_tests, "run_tests", one_loops)
    submission = hand_in(tmp_path / "ada", {"my_transformer.py": ""})
    marked = project_tests.grade_build(submission, 60)
    assert marked.points == {"test_loops": 0, "test_right": 2}
    assert asked[1] == (["--collect-only", "test_my_transformer.py"], 2)
    assert [names for names, _ in asked[2:]] == [
        [f"test_my_transformer.py::{name}"] for name in (*points, project_tests.OWN_WORK)
    ]


GUARDED = f"""\
import os
import pytest

def test_it():
    assert "A_TOKEN" not in os.environ
    assert os.environ["HOME"] != {str(Path.home())!r}
    with pytest.raises(OSError), open("big", "wb") as file:
        file.write(bytes((64 << 20) + 1))
        file.flush()
"""


@pytest.mark.posix
def test_what_runs_has_no_variables_of_the_instructor_and_fills_no_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("A_TOKEN", "secret")
    hand_in(tmp_path, {"test_guarded.py": GUARDED})
    [case], remark = project_tests.run_tests(tmp_path, ["test_guarded.py"], 60)
    assert project_tests.passed(case)
    assert remark == ""


READY_MADE = """\
import torch.nn.functional as F
from torch import nn
from torch.nn import TransformerEncoderLayer as Mine


def attend(query, key, value):
    from transformer_lib.attention import masked_softmax
    return F.scaled_dot_product_attention(query, key, value), nn.MultiheadAttention
"""
# The ready-made attention under a name that no reading of the source finds.
DISGUISED = """\
import importlib
ready_made = getattr(importlib.import_module("torch.nn." + "functional"), "scaled_dot_product" + "_attention")
"""
IMPORTS = f"from transformer_lib import count_parameters, TransformerConfig, {', '.join(SHARED)}\n"
# Student → what was handed in, the points, and what the remark says.
CLASS = {
    "untouched": ({"my_transformer/__init__.py": EMPTY, **OWN_TESTS}, 0, "$"),
    "imports": ({"my_transformer.py": IMPORTS}, 0, ".*my_transformer"),
    "ready made": (
        {
            "my_transformer/__init__.py": TASK_13,
            "my_transformer/other.py": READY_MADE,
            "my_transformer/old.py": "p 'o'\n",
        },
        0,
        r".*other\.py:3 torch\.nn\.TransformerEncoderLayer\b.*other\.py:7 transformer_lib\.attention\.masked_softmax\b"
        r".*other\.py:8 torch\.nn\.MultiheadAttention\b.*other\.py:8 torch\.nn.functional.scaled_dot_product_attention",
    ),
    "syntax": ({"my_transformer.py": "def broken(:\n"}, 0, ".*SyntaxError"),
    "leaves": ({"my_transformer.py": "import os\nos._exit(0)\n"}, 0, ".*report"),
    "empty": ({"else.py": ""}, 0, "no my_transformer.py"),
}


@pytest.mark.deep
def test_what_was_written_earns_its_points_and_the_remark_says_why_others_are_missing(tmp_path, monkeypatch):
    most = sum(project_tests.worth().values())
    for student, (files, *_) in CLASS.items():
        hand_in(tmp_path / "class" / student, files)
    hand_in(tmp_path / "class", {"lovelaceada_1234_56_my_transformer.py": TASK_13 + INNOCENT})
    solved(tmp_path / "class" / "solved")
    solved(tmp_path / "class" / "disguised")
    file = tmp_path / "class" / "disguised" / "my_transformer" / "fast.py"
    called = "scaled_dot_product_attention(query, key, value, mask)[0]"
    source = file.read_text("utf-8").replace(called, "ready_made(query, key, value, mask)")
    file.write_text(DISGUISED + source, "utf-8")
    rows = {row["student"]: row for row in grade(monkeypatch, tmp_path / "class", tmp_path / "marks.csv")}
    disguised = r"(\d+) points.* my_transformer/fast\.py:\d+ scaled_dot_product_attention"
    for student, points, remark in (
        *((student, points, remark) for student, (_, points, remark) in CLASS.items()),
        ("lovelaceada-1234", 2, "$"),
        ("solved", most, "$"),
        ("disguised", 0, disguised),
    ):
        assert float(rows[student]["total"]) == points, rows[student]
        assert re.match(remark, rows[student]["remark"]), rows[student]["remark"]
    withheld = re.match(disguised, rows["disguised"]["remark"])
    assert withheld
    assert float(withheld[1]) < most, "a test that calls it fails by itself, too"
    assert "test_own" not in rows["untouched"], "no submission brings its own tests"
    page = (tmp_path / "marks-feedback" / "untouched.html").read_text("utf-8")
    assert "NotImplementedError: task 4" in page, "what each failed test saw"


FORGED = """\
import os
with open("report.xml", "w") as file:
    case = '<testcase name="{}"><properties><property name="points" value="1000"/></properties></testcase>'
    names = ("test_4_a_mask_hides_keys", "test_own", "test_nothing_is_left_to_ready_made_attention")
    file.write("<testsuites>" + "".join(case.format(name) for name in names) + "</testsuites>")
os._exit(0)
"""


@pytest.mark.slow
def test_no_submission_brings_its_own_points(tmp_path):
    marked = project_tests.grade_build(hand_in(tmp_path / "forged", {"my_transformer.py": FORGED}), 60)
    assert sum(marked.points.values()) == project_tests.worth()["test_4_a_mask_hides_keys"] == 2


@pytest.mark.posix
def test_an_odd_folder_becomes_a_remark_and_the_class_is_marked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(project_tests, "worth", lambda: {"test": 3.0})
    dangling = hand_in(tmp_path / "class" / "dangling" / "my_transformer", {"__init__.py": ""})
    (dangling / "data").symlink_to("nowhere")
    for name in ("empty", "__MACOSX", ".git"):
        (tmp_path / "class" / name).mkdir()
    hand_in(tmp_path / "class", {"ada.zip": "", ".DS_Store": ""})
    rows = grade(monkeypatch, tmp_path / "class", tmp_path / "new" / "marks.csv")
    assert [row["student"] for row in rows] == ["dangling", "empty"]
    assert "No such file" in rows[0]["remark"]
    assert "my_transformer.py" in rows[1]["remark"]
    assert "ada.zip" in capsys.readouterr().out


def test_marks_hold_any_name_and_no_formula(tmp_path):
    for name in ("=O'Brien(1)", os.fsdecode(b"\xff")):  # a byte that is not UTF-8 in the name of a folder
        (tmp_path / "class" / name).mkdir(parents=True)
    found, _ = grade_projects.find(tmp_path / "class", make_projects.BUILD)
    odd = (project_tests.Marked({"a": 1.0}, "@SUM(1)"), project_tests.Marked({}))
    pairs = zip(odd, found, strict=True)
    marks = [grade_projects.marked(lambda *_, mark=mark: mark, one, 1, {"a": 1.0}) for mark, one in pairs]
    rows = {one.submission.student: grade_projects.row(one) for one in marks}
    grade_projects.write_marks(rows, tmp_path / "marks.csv", ["student", "total", "remark", "a"])
    content = (tmp_path / "marks.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbf"), "the mark by which Excel knows UTF-8"
    head, *lines = content.decode("utf-8-sig").splitlines()
    assert head == "student,total,remark,a"
    assert lines == ["'=O'Brien(1),1.0,'@SUM(1),1.0", "\\udcff,0.0,,0.0"]


def test_marks_are_written_after_each_submission_and_the_next_run_goes_on(tmp_path, monkeypatch):
    def second_never_ends(submission: Path, _seconds: float) -> project_tests.Marked:
        if submission.name == "b":
            raise KeyboardInterrupt
        return project_tests.Marked({"test": 3.0})

    table = tmp_path / "marks.csv"
    monkeypatch.setattr(project_tests, "grade_build", second_never_ends)
    monkeypatch.setattr(project_tests, "worth", lambda: {"test": 3.0})
    for name in "ab":
        (tmp_path / "class" / name).mkdir(parents=True)
    for options in ((), ("--again",)):
        with pytest.raises(SystemExit):
            grade(monkeypatch, tmp_path / "class", table, *options)
    first = ["student,total,remark,test,version", "of,3.0,,3.0,"]
    assert [line[:33] for line in table.read_text("utf-8-sig").splitlines()[:2]] == first
    assert [row["total"] for row in table_of(table)] == ["3.0"]
    table.write_text("student,total,remark,test,own\na,3.0,copied,3.0,7\n", "utf-8-sig")  # by hand
    monkeypatch.setattr(project_tests, "grade_build", lambda _path, _seconds: project_tests.Marked({"test": 2.0}))
    rows = grade(monkeypatch, tmp_path / "class", table)
    assert [[*row.values()][:5] for row in rows] == [["a", "3.0", "copied", "3.0", "7"], ["b", "2.0", "", "2.0", ""]]
    for option in (["--again", "a"], ["--again"]):
        rows = grade(monkeypatch, tmp_path / "class", table, *option)
        assert [*rows[0].values()][:5] == ["a", "2.0", "", "2.0", "7"], "what the instructor added stays"
    with pytest.raises(SystemExit):
        grade(monkeypatch, tmp_path / "class", table, "--again", "c")


def test_a_second_hand_in_is_marked_again_and_each_task_has_its_sum(tmp_path, monkeypatch):
    points = {"test_1_a[x]": 1.0, "test_10_b": 3.0, "test_1_c": 2.0}
    monkeypatch.setattr(project_tests, "worth", lambda: points)
    asked = []

    def all_but_c(submission: Path, _seconds: float) -> project_tests.Marked:
        asked.append(submission.name)
        return project_tests.Marked(points | {"test_1_c": 0.0}, said={"test_1_c": "AssertionError: <3>"})

    monkeypatch.setattr(project_tests, "grade_build", all_but_c)
    table = tmp_path / "marks.csv"
    hand_in(tmp_path / "class", {f"{name}/my_transformer.py": "" for name in ("a", "b")})
    for semicolons in (False, True):
        grade(monkeypatch, tmp_path / "class", table)
        if semicolons:  # as Excel in German writes it back
            table.write_bytes(table.read_text("utf-8-sig").replace(",", ";").encode("cp1252"))
        [row, _] = grade(monkeypatch, tmp_path / "class", table)
    assert asked == ["a", "b"], "nothing has changed"
    hand_in(tmp_path / "class", {"b/my_transformer/new.py": ""})
    grade(monkeypatch, tmp_path / "class", table)
    assert asked == ["a", "b", "b"]
    shown = [*row.items()][:8]
    assert shown == [
        *(("student", "a"), ("total", "4.0"), ("remark", "")),
        *(("task 1", "1.0"), ("test_1_a[x]", "1.0"), ("test_1_c", "0.0"), ("task 10", "3.0"), ("test_10_b", "3.0")),
    ]
    of = next(csv.DictReader(table.read_text("utf-8-sig").splitlines(), delimiter=";"))
    assert (of["total"], of["task 1"], of["test_10_b"]) == ("6.0", "3.0", "3.0")
    page = (tmp_path / "marks-feedback" / "b.html").read_text("utf-8")
    assert "4 of 6 points" in page
    assert "AssertionError: &lt;3&gt;" in page, "text, not a tag"
    withheld = project_tests.Marked(dict.fromkeys(points, 0.0), "6 points withheld: torch.nn.MultiheadAttention")
    c = Submission(tmp_path, "c", "build_the_transformer")
    grade_projects.write_feedback(tmp_path, grade_projects.marked(lambda *_: withheld, c, 60, points))
    page = (tmp_path / "c.html").read_text("utf-8")
    assert "6 points withheld" in page
    assert "not passed" not in page, "what passed is not said to have failed"


@pytest.mark.slow
def test_the_readme_and_the_page_name_what_the_first_project_is_worth():
    points = f"{sum(project_tests.worth().values()):g} points"
    assert points in (SKELETON / "README.md").read_text("utf-8")
    assert points in (ROOT / "book" / "for_instructors.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("student,total,remark,found.md,bug\na,4,,20,4\n", "column"),
        ("name;total\n", "column"),
        ("student,total,remark,test\nb,1,,1\na,3,copied, from bob,3.0\n", "line 3"),
        ("student,total,remark,test\na,3,\n", "line 2"),
        ("student,total,remark,test\nb,3,,3\nb,2,,2\n", "line 3"),
        ("student,total,remark,test,,\na,3,,3,9,8\n", "line 1"),
        ("student,total,remark,test,own,own\na,3,,3,9,8\n", "'own'"),
    ],
)
def test_a_table_that_would_lose_what_was_written_by_hand_is_left_alone(tmp_path, monkeypatch, text, trouble):
    (tmp_path / "class" / "c").mkdir(parents=True)
    table = tmp_path / "marks.csv"
    table.write_text(text, "utf-8")
    monkeypatch.setattr(project_tests, "worth", lambda: {"test": 3.0})
    with pytest.raises(SystemExit, match=trouble):
        grade(monkeypatch, tmp_path / "class", table)
    assert table.read_text("utf-8") == text


def test_the_table_of_the_bugs_waits_for_the_marks_by_hand(tmp_path, monkeypatch):
    (tmp_path / "class" / "ada").mkdir(parents=True)
    table, key = tmp_path / "marks.csv", tmp_path / "key.json"
    key.write_text(json.dumps(make_projects.key(make_projects.choose(0))), "utf-8")
    [row] = grade(monkeypatch, tmp_path / "class", table, "--key", str(key), project=make_projects.BUGS)
    names = [bug.name for bug in make_projects.choose(0)]
    assert [*row] == ["student", "total", "remark", "found.md", *names, "everything passes", "version"]
    assert row["found.md"] == ""
    page = (tmp_path / "marks-feedback" / "ada.html").read_text("utf-8")
    assert "0 of 25 points" in page
    assert not [name for name in names if name in page], "a bug that is left is for the student to find"


def test_downloads_of_course_systems_are_taken_as_they_are(tmp_path):
    """Whose each is: test_submissions.py."""
    moodle, adas = "Cid D_77_assignsubmission_file", "Ada B_7_assignsubmission_file_my_transformer.py"
    hand_in(tmp_path, dict.fromkeys(["eve_my_transformer.py", "eve_my_transformer-1.py", "my_transformer.py"], ""))
    names = ["bob_1_2_my_transformer.zip", "EVE/my_transformer.py", "zoe_LATE_9_8_my_transformer.py", f"{moodle}/x.py"]
    hand_in(tmp_path, dict.fromkeys([*names, adas], ""))
    os.utime(tmp_path / "EVE", (2, 2))
    os.utime(tmp_path / "eve_my_transformer.py", (1, 1))
    found, lines = grade_projects.find(tmp_path, make_projects.BUILD)
    taken = {"Cid D 77": moodle, "eve": "eve_my_transformer-1.py", "zoe-9": "zoe_LATE_9_8_my_transformer.py"}
    assert {one.student: one.file.name for one in found} == {"Ada B 7": adas, **taken}
    late = grade_projects.marked(lambda *_: project_tests.Marked({}, "stopped"), found[-1], 1, {})
    assert grade_projects.row(late)["remark"] == "late, says Canvas; stopped"
    told = ["EVE", "bob_1_2_my_transformer.zip", "eve_my_transformer.py", "my_transformer.py"]
    assert sorted(line.partition(": ")[0] for line in lines) == told
    folders, _ = grade_projects.find(tmp_path, make_projects.BUGS)
    assert [one.student for one in folders] == ["Cid D 77", "EVE"], "a library is a folder"


def test_without_a_sandbox_nothing_is_marked_unasked(tmp_path, monkeypatch):
    (tmp_path / "class" / "a").mkdir(parents=True)
    monkeypatch.setattr(sandbox, "missing", lambda _python: "bubblewrap is not installed")
    monkeypatch.setattr(sys, "argv", ["grade_projects.py", "build_the_transformer", str(tmp_path / "class")])
    with pytest.raises(SystemExit, match="--without-sandbox"):
        grade_projects.main()


def test_a_report_that_breaks_off_is_a_remark(tmp_path, monkeypatch):
    def breaks_off(*_arguments, cwd: Path, **_options) -> None:
        (cwd / "report.xml").write_text("<testsuites><testcase na", "utf-8")

    monkeypatch.setattr(subprocess, "run", breaks_off)
    cases, remark = project_tests.run_tests(tmp_path, [], 1)
    assert cases == []
    assert "report" in remark


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("E     File 'x', line 1\nE       else: x\nE   SyntaxError: invalid syntax", "SyntaxError: invalid syntax"),
        ("E   AssertionError: first\nE   assert not ['x']", "AssertionError: first"),
        ("E   ImportError: no (/a/folder/my_transformer.py)", "ImportError: no (my_transformer.py)"),
        ("Traceback:\n  File 'm.py', line 1, in <module>\nSystemExit: bye", "SystemExit: bye"),
        ("", "collection failure"),
        (f"E   ValueError: {'x' * 10_000}", f"ValueError: {'x' * 288}"),
    ],
)
def test_a_remark_is_the_first_errors_message_in_one_line(text, expected):
    error = ElementTree.Element("error", message="collection failure")
    error.text = text
    assert project_tests.said(error, Path("/a/folder")) == expected


def test_the_rest_is_tried_without_the_bugs_that_are_left(tmp_path, monkeypatch):
    bugs = make_projects.choose(1)
    tried = {}

    def bug_0_is_gone(folder, names, _seconds: float) -> tuple[list[ElementTree.Element], str]:
        library = folder / "transformer_lib"
        tried.update({bug.name: bug.right in (folder / bug.file).read_text("utf-8") for bug in bugs})
        tried["theirs"] = (library / "__init__.py").read_text("utf-8").endswith("# theirs\n")
        case = ElementTree.Element("testcase")
        if names == [f"tests/{bug.caught_by}" for bug in bugs if not tried[bug.name]]:
            ElementTree.SubElement(case, "failure")
        return [case], ""

    monkeypatch.setattr(project_tests, "run_tests", bug_0_is_gone)
    for planted, points in ((bugs[1:], 4 + 5), ([], 25), (bugs, 0)):
        submission = tmp_path / str(len(planted))
        make_projects.write_bugs(submission, planted)
        with (submission / "transformer_lib" / "__init__.py").open("a", encoding="utf-8") as file:
            file.write("# theirs\n")
        marked = project_tests.grade_bugs(submission, 60, make_projects.key(bugs))
        assert sum(marked.points.values()) == points, marked
        assert all(tried.values()), "in the last run: the student's library without what has cost its points"


@pytest.mark.deep
def test_each_bug_counts_by_itself(tmp_path):
    bugs = make_projects.choose(1)
    make_projects.write_bugs(tmp_path / "first", bugs[1:])
    first = project_tests.grade_bugs(tmp_path / "first", 60, make_projects.key(bugs))
    assert first.points[bugs[0].name] == project_tests.POINTS_A_BUG
    assert sum(first.points.values()) == project_tests.POINTS_A_BUG + project_tests.POINTS_FOR_THE_REST
