"""Runs inside the kernel, as the module `_grader`: each check sees the names as the chapter gave them.

A student's cell may overwrite `np`, `print` or a helper of the chapter, by accident or not. The student's functions
keep their own names; a check sees the original ones and the answer. This stops accidents and simple tricks. It does
not stop code that looks for the grader: that code runs in the same process.
"""

import builtins
import linecache
import random
import sys
import types
from typing import Any

MESSAGE_LENGTH = 2000
_given: dict[str, Any] = {"__name__": "__main__"}
_attributes: dict[str, tuple[Any, dict[str, Any]]] = {}


def _shell() -> Any:
    from IPython import get_ipython  # pyright: ignore[reportPrivateImportUsage]

    return get_ipython()


def _watched() -> dict[str, Any]:
    """Modules and classes whose attributes are put back: those that the chapter gave, and what they rest on."""
    modules = {value.__name__: value for value in _given.values() if isinstance(value, types.ModuleType)}
    modules |= {"builtins": builtins, "random": random, "math": sys.modules.get("math")}
    for name in ("torch", "torch.nn", "torch.nn.functional", "torch.testing", "numpy", "numpy.testing"):
        modules[name] = sys.modules.get(name)
    modules |= {name: value for name, value in sys.modules.items() if name.split(".")[0] == "transformer_lib"}
    if "torch" in sys.modules:
        modules["torch.Tensor"] = sys.modules["torch"].Tensor
    return {name: value for name, value in modules.items() if value is not None}


def setup(source: str, names: list[str]) -> None:
    """Run a cell of the chapter in a namespace of the grader's, and hand its names to the student.

    A helper of the chapter then goes on calling the chapter's other helpers, also where the student reuses a name.
    """
    put_back()
    shell = _shell()
    transformed = shell.transform_cell(source)
    file = shell.compile.cache(transformed, 0, source)
    exec(compile(transformed, file, "exec"), _given)  # from the instructor's notebook
    shell.user_ns.update({name: _given[name] for name in names if name in _given})
    for name, place in _watched().items():
        _attributes.setdefault(name, (place, dict(vars(place))))


def put_back() -> None:
    """Undo changes of the modules' attributes and of the settings that a check relies on."""
    for place, attributes in _attributes.values():
        now = vars(place)
        for name, value in attributes.items():
            if now.get(name) is not value:
                setattr(place, name, value)
    random.seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)


def _students_line(error: BaseException) -> str:
    """Where in the student's own cells an error came up; nothing if it is the check's own."""
    found = ""
    trace = error.__traceback__
    while trace:
        file = trace.tb_frame.f_code.co_filename
        if "ipykernel_" in file or "<ipython-input" in file:
            line = linecache.getline(file, trace.tb_lineno).strip()
            found = f"This came up in your line `{line}`:" if line else found
        trace = trace.tb_next
    return found


def check(source: str, names: list[str], definitions: str = "") -> None:
    """Run a check on the answer, which is found under `names`, after the definitions that it rests on.

    Raises:
        Exception: what the check raised, cut to a readable length.
    """
    put_back()
    user = _shell().user_ns
    space = {**_given, **{name: user[name] for name in names if name in user}}
    exec(compile(definitions, "<check>", "exec"), space)
    try:
        exec(compile(source, "<check>", "exec"), space)  # the check, from the instructor's notebook
    except Exception as error:
        if line := _students_line(error):
            print(line)
        message = str(error)
        if len(message) > MESSAGE_LENGTH:
            error.args = (message[:MESSAGE_LENGTH] + " …",)
        raise
