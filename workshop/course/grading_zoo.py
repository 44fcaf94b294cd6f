"""Submissions for the tests of grading, good, wrong and hostile ones, and a runner of workshop/course/grade.py."""

import copy
import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workshop.course.exercises import Exercise

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-grading" / "bin" / "python"
KERNEL_PYTHON = ROOT / ".venv" / "bin" / "python"
Notebook = dict[str, Any]


def load(path: Path) -> Notebook:
    return json.loads(path.read_text("utf-8"))


def cell(notebook: Notebook, name: str) -> dict[str, Any]:
    """The cell with this nbgrader id."""
    return next(one for one in notebook["cells"] if one["metadata"].get("nbgrader", {}).get("grade_id") == name)


def answered(release: Notebook, answers: dict[str, str]) -> Notebook:
    """The student's notebook with these answers filled in."""
    notebook = copy.deepcopy(release)
    for label, source in answers.items():
        cell(notebook, label)["source"] = source
    return notebook


def solutions(exercises: list[Exercise]) -> dict[str, str]:
    return {one.label: one.cells["solution"] for one in exercises if one.is_graded_by_machine}


def round_of_wrong_answers(exercises: list[Exercise], number: int) -> tuple[dict[str, str], dict[str, int]]:
    """The wrong answer with this number of every exercise, or its solution; and the points each must earn."""
    answers, points = solutions(exercises), {}
    for one in exercises:
        if one.is_graded_by_machine:
            points[one.label] = one.points
            if number < len(one.wrong_answers):
                answers[one.label] = one.wrong_answers[number].source
                points[one.label] -= one.wrong_answers[number].loses
    return answers, points


def hand_in(folder: Path, name: str, notebook: Notebook | str | bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = notebook if isinstance(notebook, str | bytes) else json.dumps(notebook)
    (folder / f"{name}.ipynb").write_bytes(text if isinstance(text, bytes) else text.encode())


def grade(folder: Path, assignments: Path, out: Path, *options: str, **variables: str) -> str:
    """What `make grade` prints; with the environment of the tests, not of this process."""
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "MPLBACKEND"}}
    environment |= {"JUPYTER_PREFER_ENV_PATH": "1", **variables}
    command = [PYTHON, "-m", "workshop.course.grade", folder, "--assignments", assignments, "--out", out, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    log = out / "grading.log"
    assert done.returncode == 0, done.stdout + done.stderr + (log.read_text("utf-8")[-3000:] if log.exists() else "")
    return done.stdout


def record(out: Path, chapter: str, student: str) -> dict[str, Any]:
    return load(out / "records" / chapter / f"{student}.json")


@dataclass
class Animal:
    """One hostile submission: how it is made, what it may lose, and what the report must say."""

    make: Callable[[Notebook, dict[str, str]], Notebook | str | bytes]
    loses: tuple[str, ...] = ()  # exercises of the chapter on attention
    event: str = ""
    is_held_by_walls: bool = False  # NEVER to be run without a sandbox: it would harm the machine


def _with(**answers: str) -> Callable[[Notebook, dict[str, str]], Notebook]:
    """The solutions, with some of the answers of the chapter on attention exchanged."""
    exchanged = {f"ex-attention-{name}": source for name, source in answers.items()}
    return lambda release, right: answered(
        release,
        {**right, **{name: source.replace("{solution}", right[name]) for name, source in exchanged.items()}},
    )


def _alone(source: str) -> Callable[[Notebook, dict[str, str]], Notebook]:
    """The starters, and this in the first answer."""
    return lambda release, _: answered(release, {"ex-attention-predict": source})


def _writes_scripts(release: Notebook, right: dict[str, str]) -> Notebook:
    shown = "from IPython.display import HTML, display\ndisplay(HTML('<script>document.title = 1</script>'))\n"
    shown += "display({'image/png': '\"><script>1</script>', 'text/plain': '<script>1</script>'}, raw=True)\n"
    notebook = answered(
        release, {**right, "ex-attention-predict": shown + RIGHT_PREDICTION, "ex-attention-design": SCRIPTS}
    )
    cell(notebook, "ex-attention-design")["attachments"] = {"a.png": {"image/png": '"><script>1</script>'}}
    return notebook


def _many_cells(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    own = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 1, "source": "1 + 1"}
    notebook["cells"] += [own] * 4000
    return notebook


def _many_notes(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    notebook["cells"] += [{"cell_type": "markdown", "metadata": {}, "source": "My *note*."}] * 3000
    return notebook


def _wrong_kernel(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    notebook["metadata"] |= {
        "kernelspec": {"name": "julia-1.9", "display_name": "Julia", "language": "julia"},
        "language_info": {"name": "julia"},
    }
    return notebook


def _edited_tests(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, {**right, "ex-attention-write": WRONG_WRITE})
    for part in ("check", "hidden"):
        cell(notebook, f"ex-attention-write-{part}")["source"] = "assert True"
    cell(notebook, "ex-attention-bug-check")["metadata"]["nbgrader"]["points"] = 1000
    return notebook


def _deleted_cells(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    kept = {*right}
    notebook["cells"] = [
        one for one in notebook["cells"] if one["metadata"].get("nbgrader", {}).get("grade_id") in kept
    ]
    return notebook


def _stripped(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    for one in notebook["cells"]:
        one["metadata"] = {}
        one.pop("id", None)
    notebook["nbformat_minor"] = 4
    return notebook


def _renamed(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, right)
    for number, one in enumerate(notebook["cells"]):
        one["id"] = f"other-{number}"
        if "nbgrader" in one["metadata"]:
            one["metadata"]["nbgrader"] |= {"grade_id": f"mine-{number}", "locked": False, "schema_version": 99}
    return notebook


def _answer_in_a_new_cell(release: Notebook, right: dict[str, str]) -> Notebook:
    notebook = answered(release, {**right, "ex-attention-write": "# see below"})
    place = notebook["cells"].index(cell(notebook, "ex-attention-write"))
    own = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 7, "id": "new"}
    notebook["cells"].insert(place + 1, {**own, "source": right["ex-attention-write"]})
    return notebook


def _warning(release: Notebook, right: dict[str, str]) -> Notebook:
    """A right answer that warns whenever it is called; nbgrader alone would give nothing for it."""
    body = right["ex-attention-write"].replace(":\n", ":\n    import warnings; warnings.warn('slow')\n", 1)
    return answered(release, {**right, "ex-attention-write": body})


CALLS = """
import functools
from torch.nn import functional
from transformer_lib import reference
ways = [scaled_dot_product_attention, functools.partial(scaled_dot_product_attention, mask=None),
        functional.scaled_dot_product_attention, reference.attention]
def my_attention(query, key, value):
    for way in [*ways, functional.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention]:
        try:
            found = way(query, key, value)
        except RuntimeError:
            continue
        return found[0] if isinstance(found, tuple) else torch.as_tensor(found)
"""
WRONG_WRITE = "def my_attention(query, key, value):\n    return value[:1].expand(len(query), -1)"
RIGHT_PREDICTION = "predicted_weights = [0.2] * 5\n"
CHEAT = """
import builtins, random
np_original = np
print = lambda *a: None
np = attention = scaled_dot_product_attention = None
check_attention = check_prediction = lambda answer: "Right"
torch.allclose = lambda *a, **k: True
np_original.allclose = lambda *a, **k: True
builtins.abs = lambda x: 0
builtins.AssertionError = Warning
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
"""
WALK = """
import os, sys
from pathlib import Path
KNOWN = {sys.prefix, sys.base_prefix, "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix", "/proc", "/dev"}
everything = []
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in KNOWN]
    everything += [Path(folder, name) for name in files]
"""
REACHED = (
    WALK
    + """
import socket, subprocess, transformer_lib

def possible(act):
    try:
        return act() or True
    except Exception:
        return False

package = Path(transformer_lib.__file__).parent
elsewhere = [path for path in everything if path.suffix in (".ipynb", ".db", ".md", ".csv")]
elsewhere = [str(path) for path in elsewhere if not path.is_relative_to(package)]
reached = [
    possible(lambda: socket.create_connection(("127.0.0.1", {port}), timeout=2).close()),
    possible(lambda: os.listdir(package.parent / "book")),
    possible(lambda: os.listdir(package.parent / "tests")),
    possible(lambda: os.listdir(package.parent / "workshop" / "site")),
    possible(lambda: (package / "__init__.py").open("a")),
    possible(lambda: (Path(sys.prefix) / "mine").touch()),
    possible(lambda: Path("/mine").touch()),
    int(Path("/proc/self/oom_score_adj").read_text()) != 1000,  # the first that the kernel ends where memory is short
    possible(lambda: Path("/etc/shadow").read_text()),
    possible(lambda: os.kill(int([p for p in os.listdir("/proc") if p.isdigit() and int(p) > 500][0]), 0)),
    elsewhere,
    subprocess.run(["mount", "-t", "tmpfs", "none", "/usr"], capture_output=True).returncode == 0,
    [name for name in os.environ if "GRAD" in name or name.endswith("TOKEN")],
]
predicted_weights = reached if any(reached) else [0.2] * 5
"""
)
SOLUTIONS = r"""
import re, sys, transformer_lib
from pathlib import Path
places = [getattr(sys.modules.get("_grader"), "__file__", None), transformer_lib.__file__]
for place in filter(None, places):
    for folder in Path(place).parents:
        if (page := folder / "book" / "attention.md").exists():
            for source in re.findall(r":tags: \[solution\]\n(.*?)```", page.read_text("utf-8"), re.S):
                exec("\n".join(line for line in source.splitlines() if "check_" not in line), globals())
"""
PATCHED = """
import gc, sys
import numpy, torch
from IPython import get_ipython
from workshop.course.grading import inside, wire
sys.modules["_grader"] = type(sys)("_grader")
sys.modules["_grader"].check = lambda *a: print("Right")
get_ipython().run_cell = get_ipython().run_cell_async = lambda *a, **k: None
numpy.allclose.__wrapped__.__code__ = (lambda a, b, rtol=1, atol=1, equal_nan=0: True).__code__
torch.allclose = lambda *a, **k: True
for space in [one for one in gc.get_objects() if type(one) is dict and "scaled_dot_product_attention" in one]:
    space["scaled_dot_product_attention"] = space["attention"] = lambda *a: (0, [[0] * 5])
frame = sys._getframe()
while frame := frame.f_back:
    for name in ("check", "source", "definitions", "chapter", "spaces"):
        if name in frame.f_locals:
            frame.f_locals[name] = "print('Right')"
predicted_weights, my_attention = [1.0], lambda *a: torch.zeros(4, 5)
shapes, mean_derivative = ((1, 1),) * 3, dict.fromkeys([1, 4, 16, 64, 256], 0.0)
"""
LIARS = """
import numpy, torch
class Always:
    def __getattribute__(self, name):
        return lambda *a, **k: True
class List(list):
    __len__ = lambda self: 5
    __iter__ = lambda self: iter([0.2] * 5)
    __eq__ = lambda self, other: True
    __array__ = lambda self, *a, **k: numpy.full(5, 0.2)
class Float(float):
    __abs__ = __sub__ = __rsub__ = lambda self, *a: Float(0)
    __gt__ = __ge__ = __bool__ = lambda self, *a: False
    __lt__ = __le__ = __eq__ = lambda self, *a: True
    __hash__ = float.__hash__
class Array(numpy.ndarray):
    def __array_function__(self, *a, **k):
        return True
    __array_ufunc__ = __eq__ = __array_function__
class Tensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True if "close" in function.__name__ else super().__torch_function__(function, types, args, kwargs or {})
class Dict(dict):
    __contains__ = lambda self, key: True
    __getitem__ = lambda self, key: Float(0.1)
"""
LIES = {
    "predict": "predicted_weights = numpy.full(5, 0.3).view(Array)",
    "write": "my_attention = lambda q, k, v: torch.zeros(len(q), v.shape[1]).as_subclass(Tensor)",
    "bug": "shapes = List([Float(1)])",
    "sharpness": "mean_derivative = Dict({width: Float(9) for width in (1, 4, 16, 64, 256)})",
}
VANDAL = (
    WALK
    + """
import signal, sqlite3
for path in everything:
    try:
        if path.name == "gradebook.db":
            with sqlite3.connect(path) as book:
                book.execute("update grade set manual_score = 99, needs_manual_grade = 0")
        elif "records" in path.parts or path.name.endswith("_attention.ipynb") and "vandal" not in path.name:
            path.write_text("{broken")
    except Exception:
        pass
for process in (os.getppid(), 1, -1):
    for number in (signal.SIGSTOP, signal.SIGKILL):
        try:
            os.kill(process, number)
        except Exception:
            pass
"""
)
STAYS = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "{seconds}"])
    os._exit(0)
for _ in range(200):
    if os.fork() == 0:
        time.sleep(100)
        os._exit(0)
predicted_weights = [0.2] * 5
"""
SLEEP = "98765.4"  # seconds: by this word a process that stays is known
HIDDEN_CHECK = """
def my_attention(query, key, value):
    import gc, sys
    found, frame = [], sys._getframe()
    while frame := frame.f_back:
        found += [str(x) for x in frame.f_locals.values()]
    found += [x for x in gc.get_objects() if isinstance(x, str) and "assert" in x]
    raise ValueError("\\n".join(found)[-100_000:])
"""
SCRIPTS = r"""
<img src=x onerror="document.title = 1"> <script>document.title = 1</script> <svg/onload=document.title=1>
<meta http-equiv=refresh content="0;url=https://elsewhere.example/">

[a](javascript:document.title=1) [b](data:text/html,x) ![c](https://elsewhere.example/c.png) ![d](attachment:a.png)

```mermaid
<script>document.title = 1</script>
```

$\text{</math><script>document.title = 1</script>}$ and $\href{javascript:document.title=1}{x}$ and $\frac{a}{b}$
"""
# A grader that unpickled what a submission sends would make this file.
MADE_BY_A_PICKLE = Path(tempfile.gettempdir(), "made-by-a-pickle-that-the-grader-loaded")
WIRE = f"""
import base64, os, pickle, sys
from workshop.course.grading import wire
class Bomb:
    def __reduce__(self):
        return os.system, ({"touch " + shlex.quote(str(MADE_BY_A_PICKLE))!r},)
{{body}}
"""
ALL_OF_IT = tuple(f"ex-attention-{name}" for name in ("predict", "write", "bug", "sharpness"))
NOTHING_COUNTS = "graded as if nothing had been handed in"
ZOO = {
    "edited-tests": Animal(_edited_tests, ("ex-attention-write",), "write-hidden: had been changed"),
    "deleted-cells": Animal(_deleted_cells, (), "write-check: was missing; the original was put back"),
    "stripped": Animal(_stripped),
    "renamed": Animal(_renamed),
    "new-cell": Animal(_answer_in_a_new_cell),
    "endless-function": Animal(
        _with(write="def my_attention(q, k, v):\n    while True:\n        pass"),
        ("ex-attention-write",),
        "ex-attention-write-check: stopped after",
    ),
    "endless-cell": Animal(_with(bug="while True: pass"), ("ex-attention-bug",), "ex-attention-bug: stopped after"),
    "deaf": Animal(
        _with(predict="import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"),
        ("ex-attention-predict",),
        "ex-attention-predict: stopped after",
    ),
    "flood": Animal(_with(predict=RIGHT_PREDICTION + "while True: print('x' * 1000)"), (), "printed more than"),
    "megabytes": Animal(_with(predict=RIGHT_PREDICTION + "print('x' * 5_000_000)"), (), "printed more than"),
    "warns": Animal(_warning),
    "doubles": Animal(_with(predict="torch.set_default_dtype(torch.float64)\n" + RIGHT_PREDICTION)),
    "installs": Animal(_with(predict="!pip install --upgrade six\n" + RIGHT_PREDICTION)),
    "kills-the-kernel": Animal(
        _with(write="def my_attention(q, k, v):\n    import os\n    os._exit(0)"),
        ("ex-attention-write",),
        "ex-attention-write-hidden: the kernel ended while this ran",
    ),
    "dies-in-a-cell": Animal(
        _with(predict="import os\nos._exit(1)"), ("ex-attention-predict",), "ex-attention-predict: the kernel ended"
    ),
    "leaves": Animal(_with(bug="import sys\nsys.exit()"), ("ex-attention-bug",)),
    "leaves-the-check": Animal(
        _with(write="def my_attention(q, k, v):\n    raise SystemExit"), ("ex-attention-write",)
    ),
    "memory": Animal(_with(predict="x = torch.ones(3 << 30)\n" + RIGHT_PREDICTION), ("ex-attention-predict",)),
    "asks": Animal(_with(sharpness="name = input('who? ')"), ("ex-attention-sharpness",)),
    "cheats": Animal(
        _with(predict=RIGHT_PREDICTION + CHEAT, write="import torch\n" + WRONG_WRITE), ("ex-attention-write",)
    ),
    "not-json": Animal(lambda *_: '{"cells": [', ALL_OF_IT, f"{NOTHING_COUNTS}: the file is not valid JSON"),
    "empty": Animal(lambda *_: "", ALL_OF_IT, f"{NOTHING_COUNTS}: the file is empty"),
    "untouched": Animal(lambda release, _: release, ALL_OF_IT),
    # What a review tried (issue 18), and what no longer earns anything.
    "reads-the-solutions": Animal(_with(**dict.fromkeys(LIES, SOLUTIONS)), ALL_OF_IT, is_held_by_walls=True),
    "patches": Animal(_alone(PATCHED), ALL_OF_IT),
    "liars": Animal(_with(**{name: LIARS + lie for name, lie in LIES.items()}), ALL_OF_IT),
    "vandal": Animal(_alone(VANDAL), ALL_OF_IT, is_held_by_walls=True),
    "stays": Animal(_with(predict=STAYS.replace("{seconds}", SLEEP)), is_held_by_walls=True),
    "shows-the-hidden-check": Animal(_with(write=HIDDEN_CHECK), ("ex-attention-write",)),
    "calls-the-library": Animal(_with(write=CALLS), ("ex-attention-write",)),
    "fills-the-disk": Animal(
        _with(predict="for n in range(20):\n    open(f'{n}', 'wb').write(bytes(60 << 20))\n" + RIGHT_PREDICTION),
        ("ex-attention-predict",),
        is_held_by_walls=True,
    ),
    "surrogates": Animal(_with(predict=RIGHT_PREDICTION + "word = '\ud800'\nprint('\\ud800')")),
    "odd-settings": Animal(
        _with(
            predict=RIGHT_PREDICTION + "import sys\nsys.stdout = None",
            bug="shapes = ((3, 4), (5, 4), (5, 2))\nimport os, sys\nos.chdir('/')\nsys.stderr.close = sys.stdout",
        ),
    ),
    "shallow": Animal(_with(predict=RIGHT_PREDICTION + "import sys\nsys.setrecursionlimit(50)")),
    # More of that kind.
    "nan": Animal(
        _with(
            predict="predicted_weights = [float('nan')] * 5",
            write="def my_attention(q, k, v):\n    return torch.full((len(q), v.size(1)), torch.nan)",
            sharpness="mean_derivative = dict.fromkeys([1, 4, 16, 64, 256], float('nan'))",
        ),
        tuple(f"ex-attention-{name}" for name in ("predict", "write", "sharpness")),
    ),
    "other-types": Animal(
        _with(
            predict="import numpy\npredicted_weights = numpy.full(5, 0.2, dtype=numpy.float32)",
            bug="shapes = [torch.Size([3, 4]), range(5, 3, -1), dict.fromkeys((5, 2)).keys()]",
            sharpness="import collections, numpy\n{solution}\nmean_derivative = collections.OrderedDict("
            "(key, numpy.float64(value)) for key, value in mean_derivative.items())",
        ),
    ),
    "too-much": Animal(
        _with(
            predict="import itertools\npredicted_weights = itertools.repeat(0.2)",
            write="def my_attention(q, k, v):\n    return torch.zeros(3000, 3000)",
            bug="shapes = ((10 ** 12, 4), (5, 4), (5, 2))",
            sharpness="mean_derivative = {}\nmean_derivative[1] = mean_derivative",
        ),
        ALL_OF_IT,
    ),
    "deep-lists": Animal(
        _with(predict="predicted_weights = 0.2\nfor _ in range(100_000): predicted_weights = [predicted_weights]"),
        ("ex-attention-predict",),
    ),
    "talks-nonsense": Animal(
        _with(predict="import os, sys\nos.write(int(sys.argv[1]), bytes([0, 0, 0, 3]) + b'[[{')\n" + RIGHT_PREDICTION),
        ("ex-attention-predict",),
        "an invalid message",
    ),
    "answers-early": Animal(
        _alone(
            WIRE.replace(
                "{body}",
                "wire.Wire._send = lambda self, message: self.connection.send_bytes("
                'b\'{"returned": {"outputs": [], "error": null, "much": false, "points": 99}}\')',
            )
        ),
        ALL_OF_IT,
    ),
    "sends-a-bomb": Animal(
        _alone(
            WIRE.replace(
                "{body}",
                "wire.Wire.encode = lambda self, value: ['module', base64.b64encode(pickle.dumps(Bomb())).decode()]",
            )
        ),
        ALL_OF_IT,
    ),
    "breaks-json": Animal(
        _alone("import json\njson.dumps = lambda *a, **k: '[' * 100_000"), ALL_OF_IT, "an invalid message"
    ),
    "hangs-up": Animal(
        _with(predict="import os\nos.closerange(3, 100)\n" + RIGHT_PREDICTION),
        ("ex-attention-predict",),
        "ex-attention-predict: the kernel ended",
    ),
    "swallows": Animal(
        _with(bug="while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
        ("ex-attention-bug",),
        "ex-attention-bug: ",  # stopped, or ended with its process where even that is swallowed
    ),
    "threads": Animal(
        _with(
            predict="import threading\nfor _ in range(5): threading.Thread(target=lambda: [0 for _ in iter(int, 1)],"
            " daemon=True).start()\n" + RIGHT_PREDICTION
        )
    ),
    "writes-scripts": Animal(_writes_scripts),
    "odd-errors": Animal(
        _with(
            write="class Odd(Exception):\n    def __str__(self):\n        raise self\n\n"
            "def my_attention(q, k, v):\n    raise Odd",
            bug="raise type('x' * 1_000_000, (Exception,), {})('y' * 1_000_000)",
            sharpness="raise KeyboardInterrupt",
        ),
        tuple(f"ex-attention-{name}" for name in ("write", "bug", "sharpness")),
    ),
    "changes-in-place": Animal(
        _with(
            write="def my_attention(q, k, v):\n    out = torch.softmax(q @ k.T / math.sqrt(q.size(-1)), dim=-1) @ v\n"
            "    for x in (q, k, v): x.zero_()\n    return out"
        ),
    ),
    "deletes": Animal(
        _with(
            predict="import os, shutil\nfor path in ('/tmp', os.environ['HOME']):\n"
            "    shutil.rmtree(path, ignore_errors=True)\n" + RIGHT_PREDICTION
        ),
        is_held_by_walls=True,
    ),
    "hungry-function": Animal(
        _with(write="def my_attention(q, k, v):\n    return torch.ones(3 << 30)"), ("ex-attention-write",)
    ),
    "slow-data": Animal(  # the check itself would be at it for hours
        _with(bug="shapes = ((30_000, 30_000),) * 3"), ("ex-attention-bug",)
    ),
    "calls-without-end": Animal(
        _with(write="def my_attention(q, k, v):\n    return my_attention(q, k, v)"), ("ex-attention-write",)
    ),
    "leaves-late": Animal(_with(predict="import atexit, time\natexit.register(time.sleep, 1000)\n" + RIGHT_PREDICTION)),
    "exits-late": Animal(
        _with(predict="import os, threading\nthreading.Timer(0, os._exit, [0]).start()\n" + RIGHT_PREDICTION),
        ("ex-attention-predict",),
        "a new kernel went on with the rest",
    ),
    "many-cells": Animal(_many_cells),
    "many-notes": Animal(_many_notes),
    "wrong-kernel": Animal(_wrong_kernel),
    "null-bytes": Animal(_with(predict="predicted_weights = '\0'"), ("ex-attention-predict",)),
}
# One of each kind, for `make test`; the others are for `make test-deep`.
OF_EACH_KIND = """edited-tests deleted-cells stripped endless-function flood kills-the-kernel memory cheats not-json
untouched liars vandal stays shows-the-hidden-check answers-early sends-a-bomb writes-scripts""".split()
