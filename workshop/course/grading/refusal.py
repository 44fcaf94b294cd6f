"""Functions that do already what an exercise asks for: while a student's answer runs, they refuse to.

A function of Python gets other code, so that every name of it refuses. A function compiled into PyTorch cannot be
changed; its names in the modules and in the notebook then stand for one that refuses.
"""

import contextlib
import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

MESSAGE = "the exercise asks for your own lines, and {} does already what they should do"


def function_at(path: str) -> Any:
    """The function at a path such as `torch.nn.functional.cross_entropy`; of a class its `forward`."""
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    return inspect.unwrap(found.forward if isinstance(found, type) else found)


def _refusing(path: str) -> FunctionType:
    """A function that needs no other name, so that its code can stand in any module."""
    space: dict[str, Any] = {}
    exec(f"def refuse(*_, **__):\n raise RuntimeError({MESSAGE.format(path)!r})", space)
    return space["refuse"]


@contextlib.contextmanager
def refused(paths: Sequence[str], notebook: dict[str, Any]) -> Iterator[None]:
    """Let these functions refuse, and take it back; `notebook` holds the names of the student's cells.

    Raises:
        AttributeError, ImportError: for a path that leads nowhere.
    """
    with contextlib.ExitStack() as undo:
        for path in paths:
            function, refusing = function_at(path), _refusing(path)
            if isinstance(function, FunctionType):
                undo.callback(setattr, function, "__code__", function.__code__)
                function.__code__ = refusing.__code__
                continue
            modules = [vars(module) for module in list(sys.modules.values()) if isinstance(module, type(sys))]
            for space in [*modules, notebook]:
                for name in [name for name, value in list(space.items()) if value is function]:
                    undo.callback(space.__setitem__, name, function)
                    space[name] = refusing
        yield
