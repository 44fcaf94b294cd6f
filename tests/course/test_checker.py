"""The wall between a submission and its checks: what crosses it, and what a check sees of the student's functions."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zoo
from torch import nn
from torch.nn import functional as F

from transformer_lib import (
    BASE,
    MultiHeadAttention,
    fast,
    label_smoothing_loss,
    reference,
    scaled_dot_product_attention,
)
from transformer_lib.fast import SmoothedCrossEntropy
from transformer_lib.label_smoothing import token_losses
from workshop.course.exercises import exercises_of
from workshop.course.grading import sandbox
from workshop.course.grading.checker import Chapter, Run, error_output
from workshop.course.grading.refusal import LIBRARY, function_at, refused
from workshop.course.grading.sandbox import WITHOUT, Limits, broken, missing
from workshop.course.grading.wire import Unknown, Wire
from workshop.site.book_index import pages_in_order, read_page


def crossed(value: Any) -> Any:
    """A value as it arrives from a student."""
    encoded = Wire(None, is_grader=False).encode(value)  # type: ignore[arg-type]
    return Wire(None, is_grader=True).decode(json.loads(json.dumps(encoded)))  # type: ignore[arg-type]


LIARS: dict[str, Any] = {}
exec(zoo.SNIPPETS["liars"], LIARS)  # subclasses that agree with everything


PLAIN = [None, True, 3, 2**70, 0.1, float("inf"), "word", "\ud800", 1 + 2j, [1, [2.5]], (1, "a"), {(1, 2): [3]}, {1, 2}]


@pytest.mark.parametrize("value", PLAIN)
def test_plain_values_cross_as_they_are(value: Any) -> None:
    found = crossed(value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("value", "kind", "same"),
    [
        (LIARS["List"]([1]), list, [0.2] * 5),  # what its own iterator gives
        (LIARS["Float"](-2.5), float, -2.5),
        (np.float32(0.5), float, 0.5),
        (np.int64(3), int, 3),
        (range(3), list, [0, 1, 2]),
        ((x for x in "ab"), list, ["a", "b"]),
        (LIARS["Dict"]({1: 2.5}), dict, {1: 2.5}),
        ({1: 2}.items(), list, [(1, 2)]),
        (torch.Size([2, 3]), tuple, (2, 3)),
        (np.array(["a", "b"]), list, ["a", "b"]),
    ],
)
def test_a_subclass_arrives_as_what_it_stands_for(value: Any, kind: type, same: Any) -> None:
    found = crossed(value)
    assert type(found) is kind
    assert found == same


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.bool, torch.int64])
def test_tensors_and_arrays_arrive_as_plain_ones(dtype: torch.dtype) -> None:
    for shape in ((), (3,), (2, 0), (2, 3)):
        tensor = torch.ones(shape).to(dtype)
        for sent in (tensor, nn.Parameter(tensor.float()).to(dtype)):
            found = crossed(sent)
            assert type(found) is torch.Tensor
            assert torch.equal(found, tensor)
            assert found.dtype == dtype
    lying = crossed(np.zeros(2).view(LIARS["Array"]))
    assert type(lying) is np.ndarray
    assert not np.allclose(lying, 1)
    lying = crossed(torch.zeros(2).as_subclass(LIARS["Tensor"]))
    assert type(lying) is torch.Tensor
    assert not torch.allclose(lying, torch.ones(2))


def test_a_configuration_crosses_and_other_objects_keep_their_names_alone() -> None:
    assert crossed(BASE) == BASE
    found = crossed(object())
    assert isinstance(found, Unknown)
    assert type(found).__name__ == "object"


@pytest.mark.parametrize(
    "encoded",
    [
        ["module", "gASVHQAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAR0cnVllIWUUpQu"],
        ["array", "<M8[s]", [1], "AAAAAAAAAAA="],
        ["array", "<f8", [5], "AAAAAAAAAAA="],
        ["tensor", "load", [1], "AAAA", None, False],
        ["configuration", "check_positive", {}],
        ["set", [["list", []]]],
        ["eval", "1"],
        [],
        float("nan"),
        ["array", "<f8", [1], "AAAAAAAA+H8="],
    ],
)
def test_what_no_honest_process_sends_is_refused(encoded: Any) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError, IndexError)):
        Wire(None, is_grader=True).decode(encoded)  # type: ignore[arg-type]


SETUP = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\nhelper = lambda x: x + 1"
STUDENT = """
helper = torch.softmax = None
def in_place(numbers):
    numbers.append(7)
def tie(one, other):
    other.weight = one.weight
def share(one, other):
    other.weight.data = one.weight.data
def scale(layer):
    with torch.no_grad():
        layer.weight[0] *= 2
def squares(x):
    return [x ** 2, x.sum()]
def ask(function):
    return function(torch.ones(2)) + function(2)
def fail():
    raise RuntimeError("no")
"""
FAILING = {"raises": "before = 1\nraise ValueError('no')", "does not compile": "def my_attention(query, key:"}
CHECKS = {
    "what ran before an error stays": "assert before == 1",
    "lists change in place": "given = [1]; in_place(given); assert given == [1, 7]",
    "parameters are tied": "a, b = nn.Linear(2, 2), nn.Linear(2, 2); w = a.weight; tie(a, b); "
    "assert b.weight is a.weight is w",
    "memory is shared": "a, b = nn.Linear(2, 2), nn.Linear(2, 2); share(a, b); "
    "assert a.weight is not b.weight; assert a.weight.data_ptr() == b.weight.data_ptr()",
    "weights change": "a = nn.Linear(2, 2); w = a.weight.detach().clone(); scale(a); "
    "assert torch.equal(a.weight, w * torch.tensor([[2.0], [1.0]]))",
    "gradients pass": "x = torch.tensor([1.0, 3.0], requires_grad=True); a, b = squares(x); "
    "(a.sum() + 5 * b).backward(); assert x.grad.tolist() == [7.0, 11.0]",
    "functions call back": "seen = []; assert ask(lambda x: seen.append(x) or helper(x)).tolist() == [5.0, 5.0]; "
    "assert len(seen) == 2",
    "errors keep their class": "try:\n    fail()\nexcept RuntimeError as error:\n    assert str(error) == 'no'\n"
    "else:\n    raise AssertionError",
    "patches stay outside": "assert torch.softmax(torch.zeros(2), 0).tolist() == [0.5, 0.5]",
    "a wrong answer fails": "assert squares(torch.ones(1)) == 5, 'it is 4'",
}


ROOT = Path(__file__).resolve().parents[2]
EXERCISES = [one for page in pages_in_order(ROOT) for one in exercises_of(read_page(page))]


PATHS = sorted({path for one in EXERCISES for path in one.without}.union(*LIBRARY.values()))
Q, STATES, ROWS, IDS = torch.randn(1, 4, 8), torch.randn(2, 3, 8), torch.randn(3, 5), torch.tensor([0, 4, 2])
PRIVATE: Any = torch  # names that its types do not know
NORMS: list[Callable[[], Any]] = [
    lambda: F.layer_norm(STATES, (8,)),
    lambda: torch.native_layer_norm(STATES, (8,), None, None, 1e-5),
    lambda: torch.ops.aten.layer_norm(STATES, (8,)),
    lambda: torch.ops.aten.native_layer_norm.default(STATES, (8,), None, None, 1e-5),
    lambda: torch._C._jit_get_operation("aten::layer_norm")[0](STATES, (8,)),
    lambda: F.group_norm(STATES.flatten(0, 1), 1),
    lambda: F.instance_norm(STATES),
    lambda: F.batch_norm(STATES.flatten(0, 1).T[None], None, None, training=True),
    lambda: F.rms_norm(STATES, (8,)),
    lambda: torch.vmap(lambda one: F.layer_norm(one, (8,)))(STATES),
]
# Ways to PyTorch's own and to the library's, by other names than an exercise gives.
WAYS: dict[str, list[Callable[[], Any]]] = {
    "scaled_dot_product_attention": [
        lambda: F.scaled_dot_product_attention(Q, Q, Q),
        lambda: getattr(PRIVATE._C._nn, "scaled_dot_product" + "_attention")(Q, Q, Q),
        lambda: PRIVATE._scaled_dot_product_attention_math(Q[None], Q[None], Q[None]),
        lambda: nn.MultiheadAttention(8, 2)(Q, Q, Q),
        lambda: nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval()(Q),
        lambda: scaled_dot_product_attention(Q, Q, Q),  # and what the library has of the same
        lambda: MultiHeadAttention(8, 2, 4, 4)(Q, Q, Q),
        lambda: reference.attention(*[Q[0].numpy()] * 3),
        lambda: reference.self_attention(Q[0].numpy(), *[np.eye(8)] * 3),
    ],
    "layer_norm": NORMS,
    "rms_norm": NORMS,
    "cross_entropy": [
        lambda: F.cross_entropy(ROWS, IDS),
        lambda: PRIVATE._C._nn.cross_entropy_loss(ROWS, IDS),
        lambda: F.nll_loss(ROWS, IDS),
        lambda: F.kl_div(ROWS, ROWS, reduction="sum"),
        lambda: SmoothedCrossEntropy.apply(ROWS, IDS, 0.1),
        lambda: fast.token_losses(ROWS, IDS),
        lambda: token_losses(ROWS, IDS),
        lambda: label_smoothing_loss(ROWS[None], IDS[None]),
        lambda: reference.label_smoothing_loss(ROWS[None].numpy(), IDS[None].numpy(), 0.1, 0),
    ],
    "RNN": [lambda: nn.RNN(8, 2)(STATES), lambda: nn.RNNCell(8, 2)(STATES[0]), lambda: nn.GRU(8, 2)(STATES)],
}


@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith("torch.")])
def test_a_function_that_would_answer_an_exercise_refuses_under_every_name_while_it_is_graded(path: str) -> None:
    function = function_at(path)
    before = function.__code__
    with refused([path]):
        for name in (function, function_at(path)):
            with pytest.raises(RuntimeError, match=path.rpartition(".")[2]):
                name(None)
    assert function_at(path) is function
    assert function.__code__ is before


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("torch.")])
def test_what_pytorch_has_ready_made_refuses_however_it_is_called(path: str) -> None:
    ways = WAYS[path.rpartition(".")[2]]
    with refused([path]):
        for way in ways:
            with pytest.raises(RuntimeError, match="your own lines"):
                way()
        torch.vmap(lambda one: (one @ one.mT).softmax(-1))(STATES)  # what an answer is made of does not
        torch.func.grad(lambda one: F.normalize(one).log_softmax(-1).gather(-1, IDS[:, None]).sum())(ROWS)
        torch.einsum("bik,bjk->bij", STATES, STATES).var(-1, correction=0).rsqrt().norm()
    for way in ways:
        way()


def test_what_is_refused_is_a_function_to_write_or_to_mend() -> None:
    assert {one.kind for one in EXERCISES if one.without} == {"write", "bug"}


@pytest.fixture
def run_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """A run of cells, each given as role, name, source and the names of the student's that it reads."""
    monkeypatch.setenv(WITHOUT, "1" if missing(Path(sys.executable)) else "0")
    parts = ("role", "name", "source", "names")

    def of(*given: tuple[str, str, str, list[str]]) -> Run:
        about = [dict(zip(parts, one, strict=True)) for one in given]
        cells = [{"id": one["name"], "answer": "", "without": [], **one} for one in about]
        return Run(cells, Chapter(cells), Limits(), tmp_path)

    return of


@pytest.mark.slow
def test_a_check_uses_the_students_functions_as_if_they_were_here(run_of: Callable[..., Run]) -> None:
    names = ["before", "in_place", "tie", "share", "scale", "squares", "ask", "fail"]
    run = run_of(
        ("setup", "s", SETUP, ["torch", "helper"]),
        ("student", "a", STUDENT, []),
        *(("student", name, source, []) for name, source in FAILING.items()),
        *(("check", name, source, names) for name, source in CHECKS.items()),
    )
    _, _, *outputs = run.whole()
    failed = {
        name: f"{output['ename']}: {output['evalue']}"
        for name, found in zip([*FAILING, *CHECKS], outputs, strict=True)
        for output in found
        if output["output_type"] == "error"
    }
    assert failed.pop("does not compile").startswith("SyntaxError: ")
    assert failed == {"raises": "ValueError: no", "a wrong answer fails": "AssertionError: it is 4"}
    assert run.events == []


def test_an_error_names_the_line_and_not_the_kernels_name_for_the_cell() -> None:
    told = error_output("SyntaxError", "expected ':' (<ipython-input-1-fd86015706d5>, line 1)")
    assert told["evalue"] == "expected ':' (line 1)"


COMPILED = """
import torch
from torch.nn import functional as F
@torch.jit.script
def ready_made(x):
    return F.scaled_dot_product_attention(x, x, x)
@torch.compile
def own(x):
    return (x @ x.mT).softmax(-1) @ x
"""


@pytest.mark.slow
def test_a_compiled_answer_is_judged_as_it_is_written(run_of: Callable[..., Run]) -> None:
    names = ["ready_made", "own"]
    checks = [("check", name, f"import torch\n{name}(torch.ones(1, 2, 4))", names) for name in names]
    run = run_of(("student", "a", COMPILED, []), *checks)
    for cell in run.cells:
        cell["without"] = ["torch.nn.functional.scaled_dot_product_attention"]
    _, refused_there, fine = run.whole()
    assert "your own lines" in refused_there[-1]["evalue"]
    assert [output["output_type"] for output in fine] == ["stream"]


@pytest.mark.slow
def test_a_package_that_is_not_installed_is_noted_wherever_it_is_imported(run_of: Callable[..., Run]) -> None:
    raised = 'raise ModuleNotFoundError("x\\n- bob: copied\\u2028y")'  # no line of the report is a student's
    sources = ("import no_such_package", "def f():\n    import no_such_other", "1 / 0", raised)
    cells = [("student", f"{number}", source, []) for number, source in enumerate(sources)]
    run = run_of(*cells, ("check", "c", "f()", ["f"]))
    run.whole()
    assert [event.partition(":")[0] for event in run.events] == ["0", "3", "c"]
    for event, named in zip(run.events, ("no_such_package", "x - bob: copied y", "no_such_other"), strict=True):
        assert named in event


@pytest.mark.posix
@pytest.mark.parametrize(
    ("complaint", "setting"),
    [
        ("setting up uid map: Permission denied", "0\n"),
        ("loopback: Failed RTM_NEWADDR: Operation not permitted", None),
        ("some other words", "1\n"),
    ],
)
def test_where_bubblewrap_is_forbidden_the_message_names_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str, setting: str | None
) -> None:
    refuses = tmp_path / "bwrap"
    refuses.write_text(f"#!/bin/sh\necho 'bwrap: {complaint}' >&2\nexit 1\n", "utf-8")
    refuses.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sandbox, "missing", missing.__wrapped__)
    monkeypatch.setattr(sandbox, "RESTRICTED", tmp_path / "restricted")
    if setting:
        sandbox.RESTRICTED.write_text(setting, "utf-8")
    said = sandbox.warned(Path(sys.executable), go_on=True)
    assert complaint in said
    assert "/etc/apparmor.d/bwrap" in said
    with pytest.raises(SystemExit, match=r"--without-sandbox"):
        sandbox.warned(Path(sys.executable), go_on=False)
    sandbox.RESTRICTED.write_text("0\n", "utf-8")
    refuses.write_text("#!/bin/sh\necho 'bwrap: no such option' >&2\nexit 1\n", "utf-8")
    assert "AppArmor" not in sandbox.warned(Path(sys.executable), go_on=True)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert "AppArmor" not in sandbox.warned(Path(sys.executable), go_on=True)


def test_outside_a_virtual_environment_the_sandbox_shows_the_python_that_runs(tmp_path: Path) -> None:
    command = sandbox.wall(Limits(), tmp_path / "bin" / "python", {})  # as of conda: no pyvenv.cfg beside bin
    for path in (str(tmp_path), sys.base_prefix):
        assert ["--ro-bind", path, path] in [command[i : i + 3] for i in range(len(command))]


@pytest.mark.slow
def test_a_notebook_has_a_limit_of_its_own(run_of: Callable[..., Run]) -> None:
    run = run_of(*(("student", name, "import time\ntime.sleep(600)", []) for name in ("first", "next")))
    began = time.monotonic()
    run.deadline = began + 1
    outputs = [output["evalue"] for found in run.whole() for output in found if output["output_type"] == "error"]
    assert time.monotonic() - began < 60
    for found, limit in (*zip(outputs, ("1 s", "600 s"), strict=True), *zip(run.events, ("1 s", "600 s"), strict=True)):
        assert limit in found


@pytest.mark.slow
def test_an_environment_in_which_nothing_could_run_is_told_from_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    python = Path(sys.executable)
    assert broken(python) == ""
    if why := missing(python):
        pytest.skip(why)
    monkeypatch.setattr(sandbox, "OWN", ())  # as where the environment looks for the package in a folder that was moved
    broken.cache_clear()
    assert "workshop" in broken(python)
    broken.cache_clear()
