"""Submissions for the tests of grading, good, wrong and hostile ones (zoo.toml), and a runner of `make grade`."""

import os
import shlex
import subprocess
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workshop.course.exercises import Exercise
from workshop.course.pretended_class import Notebook, answered, cell, hand_in, load

__all__ = ["PYTHON", "answered", "cell", "hand_in", "load"]
ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-grading" / "bin" / "python"
KERNEL_PYTHON = ROOT / ".venv" / "bin" / "python"
SLEEP = "98765.4"  # seconds: by this word a process that stays is known
# A grader that unpickled what a submission sends would make this file.
MADE_BY_A_PICKLE = Path(tempfile.gettempdir(), "made-by-a-pickle-that-the-grader-loaded")
WRONG = "def my_attention(query, key, value):\n    return value[:1].expand(len(query), -1)"


def solutions(exercises: list[Exercise]) -> dict[str, str]:
    return {one.label: one.cells["solution"] for one in exercises if one.is_graded_by_machine}


def mistakes(exercises: list[Exercise]) -> tuple[dict[str, str], dict[str, int]]:
    """The wrong answer of every exercise that costs the least, and the points that each still earns."""
    pairs = [(one, min(one.wrong_answers, key=lambda it: it.loses)) for one in exercises if one.is_graded_by_machine]
    answers = {one.label: wrong.source for one, wrong in pairs}
    return answers, {one.label: one.points - wrong.loses for one, wrong in pairs}


def grade(folder: Path, assignments: Path, out: Path, *options: str, **variables: str) -> str:
    """What `make grade` prints, also without a sandbox; with the environment of the tests, not of this process."""
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "MPLBACKEND"}}
    environment |= {"JUPYTER_PREFER_ENV_PATH": "1", **variables}
    command = [PYTHON, "-m", "workshop.course.grade", folder, "--assignments", assignments, "--out", out, *options]
    command.append("--without-sandbox")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    log = out / "grading.log"
    assert done.returncode == 0, done.stdout + done.stderr + (log.read_text("utf-8")[-3000:] if log.exists() else "")
    return done.stdout


def record(out: Path, chapter: str, student: str) -> dict[str, Any]:
    return load(out / "records" / chapter / f"{student}.json")


# ── The submissions that no exchange of answers makes ─────────────────────────────────────────────────────────


def untouched(release: Notebook, _right: dict[str, str]) -> Notebook:
    return release


def writes_scripts(release: Notebook, right: dict[str, str]) -> Notebook:
    shown = "from IPython.display import HTML, display\ndisplay(HTML('<script>document.title = 1</script>'))\n"
    shown += "display({'image/png': '\"><script>1</script>', 'text/plain': '<script>1</script>'}, raw=True)\n"
    notebook = answered(
        release,
        {
            **right,
            "ex-attention-predict": shown + "predicted_weights = [0.2] * 5\n",
            "ex-attention-design": SNIPPETS["scripts"],
        },
    )
    cell(notebook, "ex-attention-design")["attachments"] = {"a.png": {"image/png": '"><script>1</script>'}}
    return notebook


def many_cells(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    own = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 1, "source": "1 + 1"}
    notebook["cells"] += [own] * 4000
    notebook["cells"] += [{"cell_type": "markdown", "metadata": {}, "source": "My *note*."}] * 3000
    return notebook


def edited_tests(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, {**right, "ex-attention-write": WRONG})
    for part in ("check", "hidden"):
        cell(notebook, f"ex-attention-write-{part}")["source"] = "assert True"
    cell(notebook, "ex-attention-bug-check")["metadata"]["nbgrader"]["points"] = 1000
    return notebook


def deleted_cells(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    kept = {*right}
    notebook["cells"] = [
        one for one in notebook["cells"] if one["metadata"].get("nbgrader", {}).get("grade_id") in kept
    ]
    return notebook


def stripped(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    for one in notebook["cells"]:
        one["metadata"] = {}
        one.pop("id", None)
    notebook["nbformat_minor"] = 4
    return notebook


def warning(release: Notebook, right: dict[str, str]) -> Notebook:
    """A right answer that warns whenever it is called; nbgrader alone would give nothing for it."""
    body = right["ex-attention-write"].replace(":\n", ":\n    import warnings; warnings.warn('slow')\n", 1)
    return answered(release, {**right, "ex-attention-write": body})


# ── The zoo ───────────────────────────────────────────────────────────────────────────────────────────────────


class Animal:
    """One submission: how it is made, what it may lose, and what the report must say."""

    def __init__(
        self,
        loses: tuple[str, ...] | list[str] = (),
        event: str = "",
        held_by_walls: bool = False,
        text: str | None = None,
        made: str = "",
        **answers: str,
    ):
        self.loses = tuple(f"ex-attention-{name}" for name in loses)
        self.event, self.is_held_by_walls, self.text = event, held_by_walls, text
        self.made: Callable[[Notebook, dict[str, str]], Notebook] | None = globals()[made] if made else None
        self.answers = answers

    def make(self, release: Notebook, right: dict[str, str]) -> Notebook | str:
        if self.text is not None:
            return self.text
        if self.made:
            return self.made(release, right)
        if "only" in self.answers:
            return answered(release, {"ex-attention-predict": whole(self.answers["only"])})
        exchanged = {f"ex-attention-{name}": source for name, source in self.answers.items()}
        return answered(release, {**right, **{name: whole(text, right[name]) for name, text in exchanged.items()}})


def whole(source: str, solution: str = "") -> str:
    """The source with the snippets that it names, such as {walk}."""
    for name, text in SNIPPETS.items():
        source = source.replace(f"{{{name}}}", text)
    return source.replace("{solution}", solution)


TOUCH = repr(f"touch {shlex.quote(str(MADE_BY_A_PICKLE))}")
_read: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
SNIPPETS: dict[str, str] = {name: text.replace("{touch}", TOUCH) for name, text in _read.pop("snippets").items()}
REACHED = whole(SNIPPETS["reached"])
ZOO = {name: Animal(**about) for name, about in _read.items()}
ALL_OF_IT = ZOO["untouched"].loses
# Of most kinds one, for `make test`; endless loops, which take their time, and the others are for `make test-deep`.
OF_EACH_KIND = """edited-tests deleted-cells stripped flood kills-the-kernel memory not-json untouched stays
shows-the-hidden-check sends-a-bomb writes-scripts""".split()
