"""Exercises read from their chapters: what a page must not lack, the cells that an exercise stands on, the marks."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from answers import LONG
from IPython.core.interactiveshell import InteractiveShell

from workshop.course import assignment_notebook, assignment_papers
from workshop.course.assignment_notebook import assignment
from workshop.course.exercise_context import bound, cells_before, needed_cells, plain_python, read
from workshop.course.exercises import Exercise, bare_answer, exercises_of, split_check
from workshop.course.make_assignments import chapters
from workshop.course.try_exercises import mark, prepared, trials, try_page
from workshop.site import teaching_plan
from workshop.site.address import configured
from workshop.site.book_index import Page, read_page
from workshop.site.myst_blocks import PageError
from workshop.site.plain_markdown import task_words

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = chapters()
TASK = "```{task} write\n:difficulty: easy\n:minutes: 5\n:points: 4\n:teaches: doubling\n```"
ANSWER = "```{code-cell}\n:tags: [answer]\n\nx = None\n```"
CHECK = """```{code-cell}
:tags: [check]

def check_x(x):
    return "Right" if x == 4 else "No."


print(check_x(x))
```"""
HINT = "```{hint}\n:class: dropdown\nCount.\n```"
SOLUTION = "```{code-cell}\n:tags: [solution]\n\nx = 4\nprint(check_x(x))\n```"
HIDDEN = "```{code-cell}\n:tags: [hidden-check]\n\nassert x == 4\n```"
WRONG = "```{code-cell}\n:tags: [wrong-answer]\n:loses: 4\n\nx = 5\n```"
RUBRIC = "```{rubric}\n- 3: a reason\n- 1: an example,\n    spelled out\n```"


def page(tmp_path: Path, *inside: str, solution: tuple[str, ...] = (SOLUTION, HIDDEN, WRONG, WRONG)) -> Page:
    """A page with one exercise."""
    start = "```{exercise-start} A title\n:label: ex-one\n```"
    parts = ["# Page", start, *inside, "```{exercise-end}\n```"]
    parts += ["```{solution-start} ex-one\n```", *solution, "```{solution-end}\n```"]
    file = tmp_path / "page.md"
    file.write_text("\n".join(parts), "utf-8")
    return read_page(file)


def whole(tmp_path: Path) -> Exercise:
    return exercises_of(page(tmp_path, TASK, "Double 2.", ANSWER, CHECK, HINT))[0]


def test_an_exercise_is_read_whole(tmp_path: Path) -> None:
    exercise = whole(tmp_path)
    assert (exercise.label, exercise.title, exercise.kind, exercise.points) == ("ex-one", "A title", "write", 4)
    assert exercise.is_graded_by_machine
    assert exercise.visible_points == 2
    assert exercise.cells["answer"] == "x = None"
    assert exercise.cells["solution"] == "x = 4", "the line that shows the check belongs to the page alone"
    assert [(wrong.source, wrong.loses) for wrong in exercise.wrong_answers] == [("x = 5", 4)] * 2
    assert [block.text.strip() for block in exercise.statement] == ["Double 2."]


def test_a_written_exercise_has_its_rubric(tmp_path: Path) -> None:
    (exercise,) = exercises_of(page(tmp_path, TASK, "Why?", solution=("Because.", RUBRIC)))
    assert not exercise.is_graded_by_machine
    assert exercise.rubric == [(3, "a reason"), (1, "an example, spelled out")]


BROKEN = {
    "no task": ([ANSWER, CHECK, HINT], None, "page.md:2: .*task"),
    "two tasks": ([TASK, TASK], None, "task"),
    "no minutes": ([TASK.replace(":minutes: 5\n", "")], None, "minutes"),
    "unknown kind": ([TASK.replace("write", "ponder")], None, "ponder"),
    "unknown difficulty": ([TASK.replace("easy", "mild")], None, "mild"),
    "odd points": ([TASK.replace("points: 4", "points: 3")], None, "3 points"),
    "two answers": ([TASK, ANSWER, ANSWER], None, "answer"),
    "no check": ([TASK, ANSWER, HINT], None, "check"),
    "no hidden check": ([TASK, ANSWER, CHECK, HINT], (SOLUTION, WRONG, WRONG), "hidden-check"),
    "one wrong answer": ([TASK, ANSWER, CHECK, HINT], (SOLUTION, HIDDEN, WRONG), "wrong"),
    "no points lost": (
        [TASK, ANSWER, CHECK, HINT],
        (SOLUTION, HIDDEN, WRONG.replace(":loses: 4\n", ""), WRONG),
        ":loses:",
    ),
    "no hint": ([TASK, ANSWER, CHECK], None, "hint"),
    "check without print": ([TASK, ANSWER, CHECK.replace("print(check_x(x))", ""), HINT], None, "page.md:2: .*print"),
    "rubric adds up wrong": ([TASK], ("Because.", RUBRIC.replace("3:", "2:")), "rubric"),
    "rubric line": ([TASK], ("Because.", "```{rubric}\nfour points\n```"), "rubric"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_page_error_names_what_is_missing(tmp_path: Path, name: str) -> None:
    inside, solution, message = BROKEN[name]
    with pytest.raises(PageError, match=message):
        exercises_of(page(tmp_path, *inside, **({"solution": solution} if solution else {})))


def test_unclosed_and_old_forms_are_errors(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    for text, message in {
        f"# P\n```{{exercise-start}} T\n:label: ex-one\n```\n{TASK}": "exercise-end",
        f"# P\n```{{exercise-start}} T\n:label: ex-one\n```\n{TASK}\n```{{exercise-end}}\n```": "solution-start",
        "# P\n```{exercise} T\n:label: ex-one\nDo.\n```": "exercise-start",
    }.items():
        file.write_text(text, "utf-8")
        with pytest.raises(PageError, match=message):
            exercises_of(read_page(file))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "print"),
        ("print(check_a(x))\nprint(check_a(y))", "before"),
        ("print(check_a(x))\ny = 1", "print"),
        ("print(check_a(x), 1)", "print"),
        ("show(check_a(x))", "print"),
    ],
)
def test_a_check_ends_in_one_print(source: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_check(source)


def test_a_check_is_split_and_an_answer_bared() -> None:
    definitions, call = split_check("def check_a(x):\n    return 'Right'\n\n\nprint(check_a(f(x)))")
    assert (definitions, call) == ("def check_a(x):\n    return 'Right'", "check_a(f(x))")
    assert bare_answer("x = 1\nprint(x)\nprint(check_a(x))\nassert check_a(x)") == "x = 1\nprint(x)"


# ── The cells that an exercise stands on ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("y = x + 1", {"x"}),
        ("x += 1", {"x"}),
        ("def f(a):\n    return a + g(b)", {"g", "b"}),
        ("def f():\n    return later\nlater = 1", {"later"}),  # called before? It is safe to bring what it may read
        ("[x for x in xs if x > low]", {"xs", "low"}),
        ("try:\n    risky()\nexcept Known as error:\n    print(error)", {"risky"}),
        ("while n:\n    n = step(n)", {"n", "step"}),
        ("import numpy as np\nnp.ones(3)", set()),
        ("%pip install x\nprint(y)", {"y"}),
        ("class C(Base):\n    def f(self):\n        return helper", {"Base", "helper"}),
        ("print(len(x))", {"x"}),
    ],
)
def test_the_names_that_a_cell_needs(source: str, names: set[str]) -> None:
    assert names <= read(source) <= names | {"Known"}


def test_the_names_that_a_cell_binds() -> None:
    source = "import a.b\nfrom c import d as e\nx, (y, *z) = 1, (2, 3)\ndef f(q): r = 1\nclass G: h = 2"
    assert bound(source) == {"a", "e", "x", "y", "z", "f", "G"}


def test_magics_are_emptied() -> None:
    assert plain_python("if x:\n    %pip install y\n!ls") == "if x:\n    pass\npass"


def test_cells_are_chosen_back_to_what_they_rest_on() -> None:
    cells = ["import math", "a = 1", "a = 2", "b = a", "unused = 1", "def f():\n    return math.pi * b"]
    assert needed_cells(cells, {"f"}) == [0, 2, 3, 5]
    assert needed_cells(cells, {"a"}) == [2], "the nearest binding before"
    assert needed_cells(cells, {"nowhere"}) == []


def test_the_form_that_contributing_names_is_whole_and_its_answers_earn_what_it_says(tmp_path: Path) -> None:
    form = (ROOT / "workshop" / "course" / "exercise_form.md").read_text("utf-8")
    (tmp_path / "name.md").write_text(f"# A chapter\n\n{form}", "utf-8")
    [exercise] = exercises_of(read_page(tmp_path / "name.md"))
    tried = trials(exercise)
    assert len(tried) >= 4
    for what, answer, points in tried:
        assert mark(exercise, answer, {"__name__": "__main__"}).points == points, what


def test_each_written_exercise_has_an_answer_of_half_its_points_for_two_markers() -> None:
    halves = tomllib.loads(assignment_papers.HALF_RIGHT.read_text("utf-8"))
    written = {one.label: one for *_, every in CHAPTERS.values() for one in every if not one.is_graded_by_machine}
    assert set(halves) == set(written)
    for label, half in halves.items():
        most = [points for points, _ in written[label].rubric]
        assert 2 * sum(half["points"]) == written[label].points, label
        assert all(0 <= given <= points for given, points in zip(half["points"], most, strict=True)), label
    text = assignment_papers.rubric(*CHAPTERS["attention"])
    assert halves["ex-attention-design"]["answer"] in text
    assert re.search(r"^## Exercise 5 \(\d+ in the book\): ", text, re.MULTILINE)
    assert "1 point for the check" in text
    assert not re.search(r"\b1 (points|exercises)\b", text)
    first = assignment(*CHAPTERS["attention"][:2], configured(ROOT)).cells[0].source
    assert "chatbot" in first, "what a course must settle is named where a student begins"


def test_what_stands_above_an_exercise_in_the_chapter_stands_above_it_in_the_assignment() -> None:
    for page, plain, exercises in CHAPTERS.values():
        cells = assignment(page, plain, configured(ROOT)).cells
        setup = {i: cell.source for i, cell in enumerate(cells) if cell.id.startswith("setup-")}
        at = {cell.id: i for i, cell in enumerate(cells)}
        for one in (one for one in exercises if one.is_graded_by_machine):
            above = cells_before(page, plain, one.line)
            assert [i for i, source in setup.items() if source in above and i > at[one.label]] == [], one.label


def test_an_error_that_counts_for_the_student_is_said_in_the_hidden_check_too() -> None:
    for one in (one for _, _, exercises in CHAPTERS.values() for one in exercises if one.is_graded_by_machine):
        tree = ast.parse(one.cells["hidden-check"])
        assert "suppress" not in ast.unparse(tree), one.label
        for handler in (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)):
            assert "print(" in ast.unparse(handler), one.label


def test_a_check_after_a_cell_that_stopped_says_so_and_checks_at_the_second_run() -> None:
    """A starter that is still there would be read as an answer that was not given."""
    call = {"definitions": "def check(x):\n    return 'Right' if x else 'Put a number'", "call": "check(x)"}
    source = assignment_notebook.CHECK.format(**call, passed="Right")
    shell = InteractiveShell()
    for cell, words in (("x = 1", ""), ("x = None\ny = nump", "nump"), (source, "nump"), (source, "Put a number")):
        assert words in str(shell.run_cell(cell).error_in_exec or "")
    for cell, words in (("x = (", ""), (source, "SyntaxError"), ("x = 1", ""), (source, "")):
        assert words in str(shell.run_cell(cell).error_in_exec or "")
    assert shell.last_execution_succeeded
    exec(source, {**shell.user_ns})  # as Otter does, whatever cell ran before


def test_a_check_imports_nothing_that_an_answer_could_use_by_mistake() -> None:
    """The student's notebook would know the name, and the grader would not."""
    for one in (one for _, _, exercises in CHAPTERS.values() for one in exercises if one.is_graded_by_machine):
        body = ast.parse(one.cells["check"]).body
        imports = {ast.unparse(node) for node in body if isinstance(node, ast.Import | ast.ImportFrom)}
        readers = {f"from transformer_lib.data.text_files import read_{what}" for what in ("numbers", "tensor")}
        assert imports <= readers, one.label


def test_what_no_check_looks_for_the_text_says() -> None:
    forbids = re.compile(r"(without( a)?|[Nn]o) (loops?|library)\b")
    found = {}
    for one in (one for _, _, exercises in CHAPTERS.values() for one in exercises if one.is_graded_by_machine):
        text = "\n".join(block.text for block in one.statement)
        if forbids.search(text):
            found[one.label] = "no check looks" in text
    assert len(found) >= 6
    assert all(found.values()), found


def test_what_an_answer_must_not_call_is_said_as_far_as_it_is_refused() -> None:
    options = {"difficulty": "easy", "minutes": 1, "points": 2, "teaches": "x"}

    def said(without: str) -> str:
        return task_words("write", {**options, "without": without}).rpartition(" · ")[-1]

    ours, torchs = "transformer_lib.reference.embedding", "torch.nn.functional.cross_entropy"
    assert said(ours) == "without calling `embedding` of the library", "PyTorch's embedding is not refused"
    assert said(f"{ours} | {torchs}") == "without calling `embedding`, `cross_entropy` or what computes the same"


LOSSES = """def smoothed_loss(logits, target, epsilon, pad_id):
    log_p, real = logits.log_softmax(-1), target != pad_id
    losses = -(1 - epsilon) * log_p.gather(-1, target[..., None])[..., 0] - epsilon * log_p.mean(-1)
"""
MESSAGES = [  # what an answer gets to hear: a word of it
    ("layers", "ex-layers-predict", "predicted_norm = 'eleven'", "4 numbers are asked for: 'eleven' is no number"),
    ("layers", "ex-layers-predict", "predicted_norm = torch.ones(1, 5)", "4 numbers are asked for, not 5"),
    (
        "layers",
        "ex-layers-write",
        "def my_layer_norm(*given):\n    raise RuntimeError('own lines')",
        "stops: own lines.",
    ),
    ("layers", "ex-layers-bug", "probe = (torch.tensor([[[1.0, 2, 3, 4]]]), lambda x: None)", "returns None"),
    ("decoding", "ex-decoding-predict", "predicted_extensions = {1: 39, 2: 156}", "2 numbers are asked for"),
    ("multi_head_attention", "ex-heads-predict", "prediction = (512.9, 512.4, 655360.7)", "512.9"),
    (
        "masks",
        "ex-masks-fool",
        "sly = lambda x: x + torch.relu(x[-1] - 20)",
        "21.25 as the last input the gradient test catches it",
    ),
    ("label_smoothing", "ex-smoothing-bug", "too_small = {(5, 11): 'eleven'}", "'eleven' is no number"),
    *(
        ("label_smoothing", "ex-smoothing-write", f"{LOSSES}    return {of_them}", word)
        for of_them, word in (
            ("((losses * real).sum(1) / real.sum(1)).mean()", "mean of each sentence"),
            ("losses[real].mean() / math.log(2)", "in bits"),
        )
    ),
    (
        "label_smoothing",
        "ex-smoothing-write",
        """def smoothed_loss(logits, target, epsilon, pad_id):
    log_p = logits.log_softmax(-1)
    goal = torch.full_like(log_p, epsilon / (logits.size(-1) - 2)).scatter_(-1, target[..., None], 1 - epsilon)
    goal[..., pad_id] = goal[target == pad_id] = 0
    return -(goal * log_p).sum() / (target != pad_id).sum()""",
        "V - 2",
    ),
]


@pytest.mark.slow
def test_a_check_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "book")
    found = {}
    for chapter, label, code, word in MESSAGES:
        page, plain, exercises = CHAPTERS[chapter]
        [one] = [one for one in exercises if one.label == label]
        with prepared(page, plain, one) as names:
            found[label, code] = (word, mark(one, code, names))
    assert {key: told for key, (word, told) in found.items() if word not in told.visible or told.points} == {}
    [stops] = [told.visible for (label, _), (_, told) in found.items() if label == "ex-layers-write"]
    assert "keepdim" not in stops, "no guess at what a refusal is about"


def test_the_weeks_of_a_course_have_their_minutes() -> None:
    courses = teaching_plan.courses(ROOT)
    assert [len(weeks) for weeks in courses.values()] == [2, 6, 12]

    def reading(name: str) -> int:
        time = re.search(r"\*\*Time:\*\* (\d+) minutes", CHAPTERS[name][0].path.read_text("utf-8"))
        assert time
        return int(time[1])  # without the exercises

    [*_, minutes, due] = courses["twelve weeks"][3]  # positions and embeddings, of which one is handed in
    assert minutes == reading("positional_encoding") + reading("embeddings")
    assert due == sum(one.minutes for one in CHAPTERS["positional_encoding"][2])
    assert courses["twelve weeks"][11][-1] == 0, "no chapter's exercises are handed in"
    text = teaching_plan.syllabus(ROOT, "six weeks", "https://book.example/")
    assert "{" not in text
    assert "https://book.example/masks.html" in text
    assert sum(map(int, re.findall(r"\[(\d+) %\] \|$", text, re.MULTILINE))) == 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",  # the answers of two chapters train for seconds
    [pytest.param(name, marks=pytest.mark.deep if name in ("training", "variations") else []) for name in CHAPTERS],
)
def test_every_answer_earns_what_the_chapter_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the numbers of the page, test_answer_pool.py tries them too, of all chapters but the LONG ones."""
    monkeypatch.chdir(ROOT / "book")
    assert try_page(name, show=False, with_numbers_alone=name not in LONG) == []
