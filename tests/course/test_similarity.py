"""Which answers of a class resemble each other; copydetect judges, in .venv-grading."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import zoo
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from needs import unavailable

from workshop.course.similarity import SOLUTION, notebooks, written

ROOT = Path(__file__).resolve().parents[2]
STARTER = "def my_attention(q, k, v):\n    ..."
RIGHT = """\
def my_attention(q, k, v):
    scores = q @ k.T / math.sqrt(q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return weights @ v
"""
LOOPS = """\
def my_attention(q, k, v):
    out = torch.zeros(len(q), v.size(1))
    for i, query in enumerate(q):
        exponentials = [math.exp(sum(a * b for a, b in zip(query, key)) / len(query) ** 0.5) for key in k]
        for share, value in zip(exponentials, v):
            out[i] = out[i] + share / sum(exponentials) * value
    return out
"""
RENAMED = RIGHT.replace("scores", "s").replace("weights", "w") + "# <script>alert(1)</script>\n"


WORDS = """\
Train three models that differ in nothing but the scores, on a task that is known to need attention, for
several widths; tune the learning rate of each, and show the spread over five seeds. """


def put(path: Path, answer: str, words: str = "") -> None:
    role = {"grade": False, "solution": True, "locked": False, "grade_id": "ex-write"}
    given = {"grade": False, "solution": False, "locked": True, "grade_id": "setup"}
    cells = [
        new_code_cell("import math\nimport torch", metadata={"nbgrader": given}),
        new_code_cell(f"n = {len(answer)}", metadata={"book": {"drawn": True}}),  # numbers of the student's own
        new_code_cell(answer, metadata={"nbgrader": role}),
        new_markdown_cell("Words of the assignment, which all have. " * 9, metadata={"nbgrader": given}),
        new_markdown_cell(words or "*Write your answer here.*", metadata={"nbgrader": {**role, "grade": True}}),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(new_notebook(cells=cells)), "utf-8")


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    """A folder of marks as `make grade` leaves it."""
    put(tmp_path / "release" / "attention" / "attention.ipynb", STARTER)
    put(tmp_path / "source" / "attention" / "attention.ipynb", LOOPS.replace("out[i] = out[i] +", "out[i] +="))
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks" / "attention.csv").write_text("student\nada\nbob\neve\nzoe\n", "utf-8")
    words = {"zoe": WORDS, "eve": WORDS.upper().replace(" ", "\n"), "ada": "Look at one head after the other. " * 4}
    for student, answer in {"ada": RIGHT, "bob": RENAMED, "eve": LOOPS, "zoe": STARTER}.items():
        put(tmp_path / "submitted" / student / "attention" / "attention.ipynb", answer, words.get(student, ""))
    return tmp_path


def test_who_stands_in_the_table_is_compared(graded: Path) -> None:
    assert set(notebooks(graded, "attention")) == {"ada", "bob", "eve", "zoe", SOLUTION}
    (graded / "marks" / "attention.csv").write_text("student,points\nada,1\neve,2\nnever,0\n", "utf-8")
    assert set(notebooks(graded, "attention")) == {"ada", "eve", SOLUTION}


def test_only_what_a_student_may_write_is_compared(graded: Path) -> None:
    assert written(notebooks(graded, "attention")["ada"], "code").strip() == RIGHT.strip()
    assert written(notebooks(graded, "attention")["eve"], "markdown").strip() == " ".join(WORDS.casefold().split())


def test_without_submissions_it_says_what_to_do_first(graded: Path) -> None:
    with pytest.raises(SystemExit, match="masks"):
        notebooks(graded, "masks")


@pytest.mark.slow
def test_renaming_hides_no_copy_and_another_solution_is_none(graded: Path) -> None:
    has_it = zoo.PYTHON.exists() and not subprocess.run([zoo.PYTHON, "-c", "import copydetect"], check=False).returncode
    if not has_it:
        unavailable("needs copydetect in .venv-grading: run `make grading-env`", "GRADING")
    command = [zoo.PYTHON, "-m", "workshop.course.similarity", "attention", "--marks", graded]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{graded / 'similarity-attention.html'}\n"
    page = (graded / "similarity-attention.html").read_text("utf-8")
    pairs = re.findall(r"<summary>(.+?) \(\d+ %\) and\n(.+?) \(\d+ %\)</summary>", page)
    assert {frozenset(pair) for pair in pairs} == {
        frozenset({"ada", "bob"}),
        frozenset({"eve", SOLUTION.replace("'", "&#39;")}),
        frozenset({"eve", "zoe"}),  # the words alone
    }
    assert "Written answers (1)" in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=", page), "it loads nothing"
