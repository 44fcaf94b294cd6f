"""Answers in forms that no chapter shows: pools of them, and the solutions' own in other types and wrappings.

In answers.toml stand right and wrong ones, each with its points; in right_answers.toml right ones alone.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workshop.course.exercise_context import asked
from workshop.course.exercises import Exercise

# Label → answers, each with the points that it must earn, in the notebook and where it is graded; what calls ready-made
# parts earns nothing there: it is `refused`. What the visible check `says` of it, among others.
POOL: dict[str, list[dict[str, Any]]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
# Label → right answers: whole cells, or what stands in the function that the exercise asks for.
RIGHT: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("right_answers.toml").read_text("utf-8"))
LIBRARIES = """import collections, fractions, functools, itertools, math, operator, re, statistics
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
"""
# Their solutions train, or their checks do: test_answer_pool.py tries them in the deep ring alone.
LONG = {"sequence_to_sequence", "self_attention", "text_to_tensors", "learning_rate", "training", "variations"}
# What these answers are asked to change, they may.
CHANGES_ITS_ARGUMENTS = {"ex-heads-bug", "ex-heads-same", "ex-embeddings-bug", "ex-self-gates", "ex-training-write"}
# What is asked for has a gradient.
NEEDS_GRADIENTS = {"ex-first-bug", "ex-masks-fool"}

NUMBERS = """
def _of_another_type(value, kind):
    if isinstance(value, dict):
        return {key: _of_another_type(one, kind) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_of_another_type(one, kind) for one in value)
    return kind(value) if type(value) in (int, float) else value


"""
TYPES = {
    "floats": "float",
    "NumPy's numbers": "__import__('numpy').float64",
    "NumPy's whole numbers": "lambda x: __import__('numpy').int64(x) if x == int(x) else x",
    "tensors": "lambda x: __import__('torch').tensor(float(x), dtype=__import__('torch').float64)",
    "fractions": "__import__('fractions').Fraction",
    "decimals": "__import__('decimal').Decimal",
    "text": "str",
    # Of a whole number one: 256,000 is another number.
    "text with decimals behind a comma": (
        "lambda x: (format(x, '.1f' if x == int(x) else '.3f') if abs(x) >= 0.1 else str(x)).replace('.', ',')"
    ),
    "text with commas for thousands": "lambda x: format(x, ',')",
}
SEQUENCES = {
    "a list": "lambda x: [*x] if isinstance(x, tuple) else x",
    "a tuple": "lambda x: (*x,) if isinstance(x, list) else x",
    "an iterator": "lambda x: (one for one in x) if isinstance(x, (list, tuple)) else x",
    "an array": "lambda x: __import__('numpy').array(x) if isinstance(x, (list, tuple)) else x",
    "an ordered dictionary": "lambda x: __import__('collections').OrderedDict(x) if isinstance(x, dict) else x",
}
# What is no number, and what is no answer.
NO_NUMBERS = {"words": "'eleven'", "nothing": "None", "not a number": "float('nan')", "lists": "[1, 2]"}
NO_ANSWERS = {
    "a word": "'eleven'",
    "a number": "0.123",
    "no list": "[]",
    "a dictionary": "{1: 2}",
    "a function": "print",
}
RESULTS = """
def _with_other_results(function, kind):
    def convert(result):
        import torch
        if isinstance(result, (list, tuple)):
            return type(result)(convert(one) for one in result)
        return kind(result) if isinstance(result, torch.Tensor) else result

    return lambda *given, **named: convert(function(*given, **named))


"""
KINDS = {
    "in float64": "lambda x: x if x.dtype.is_floating_point is False else x.double()",
    "in float32": "lambda x: x if x.dtype.is_floating_point is False else x.float()",
    "as arrays": "lambda x: x.detach().numpy()",
    "as parameters": "lambda x: x.detach().requires_grad_() if x.dtype.is_floating_point else x",
    "as lists": "lambda x: x.tolist()",
}
# Answers that take one type of number alone: the two checks must give the same one.
TAKES = """
def _that_takes(function, kind):
    def taking(*given):
        import torch
        kinds = {one.dtype for one in given if isinstance(one, torch.Tensor) and one.is_floating_point()}
        return function(*given) if kinds <= {getattr(torch, kind)} else None

    return taking


"""
# What else than a plain function can be called like it.
CALLABLES = {
    "an object": "type('Mine', (), {'__call__': staticmethod(lambda *given: FUNCTION(*given))})()",
    "a module": "type('Mine', (__import__('torch').nn.Module,), {'forward': lambda self, *given: FUNCTION(*given)})()",
    "a bound method": "__import__('types').MethodType(lambda self, *given: FUNCTION(*given), [])",
    "a part of a function": "__import__('functools').partial(lambda given, *more: FUNCTION(*more), None)",
    "decorated": "__import__('functools').wraps(FUNCTION)(lambda *given, **named: FUNCTION(*given, **named))",
    "dispatched": "__import__('functools').singledispatch(FUNCTION)",
    "called by names": (
        "lambda *given: FUNCTION(**dict(zip(__import__('inspect').signature(FUNCTION).parameters, given)))"
    ),
    "given tensors as the grader gives them, with no strides of another's": (
        "lambda *given: FUNCTION(*given) if all("
        "one.is_contiguous() for one in given if isinstance(one, __import__('torch').Tensor)) else None"
    ),
    "in inference mode": "__import__('torch').inference_mode()(FUNCTION)",
    "with gradients": "__import__('torch').enable_grad()(FUNCTION)",
}
# Computes, and then spoils whatever it was given.
SPOILS = """
def _that_spoils(function):
    def spoil(one):
        import torch
        if isinstance(one, torch.Tensor):
            one.zero_()
        elif isinstance(one, torch.nn.Module):
            for parameter in one.parameters():
                parameter.zero_()
        elif isinstance(one, list):
            for inside in one:
                spoil(inside)
            one.clear()

    def spoiling(*given):
        import copy, torch
        result = copy.deepcopy(function(*given)) if not torch.is_grad_enabled() else function(*given)
        result = result.clone() if isinstance(result, torch.Tensor) else result
        with torch.no_grad():
            spoil([*given])
        return result

    return spoiling


"""


def as_computed(exercise: Exercise, values: dict[str, Any]) -> str:
    """The solution with the numbers that it computes written in, where they are plain; an experiment takes its time."""
    names = sorted(name for name in asked(exercise) & {*values} if not callable(values[name]))
    try:
        written = {name: repr(values[name]) for name in names if ast.literal_eval(repr(values[name])) is not None}
    except (ValueError, SyntaxError):
        return exercise.cells["solution"]
    body = ast.parse(exercise.cells["solution"]).body
    kept = [ast.unparse(node) for node in body if isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom)]
    return "\n".join([*kept, *(f"{name} = {value}" for name, value in written.items())])


def other_types(exercise: Exercise, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The solution with what it answers in other types: what is other, and the code.

    Args:
        values: what the solution binds.
    """
    solution, names = as_computed(exercise, values), sorted(asked(exercise) & {*values})
    data = [name for name in names if not callable(values[name])]
    functions = [name for name in names if callable(values[name])]

    def changed(of: list[str], change: str) -> str:
        return "".join(f"{name} = {change.format(name)}\n" for name in of)

    for what, kind in TYPES.items() if data else ():
        yield what, f"{solution}\n{NUMBERS}" + changed(data, f"_of_another_type({{}}, {kind})")
    for what, kind in SEQUENCES.items() if data else ():
        yield what, f"{solution}\n\n\n" + changed(data, f"({kind})({{}})")
    for what, kind in KINDS.items() if functions else ():
        yield f"results {what}", f"{solution}\n{RESULTS}" + changed(functions, f"_with_other_results({{}}, {kind})")


def of_one_type(exercise: Exercise, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The solution as functions that take one type of number alone: which, and the code."""
    functions = [name for name in sorted(asked(exercise)) if callable(values.get(name))]
    for kind in ("float32", "float64") if functions else ():
        wrapped = (f"{name} = _that_takes({name}, {kind!r})\n" for name in functions)
        yield f"takes {kind} alone", f"{as_computed(exercise, values)}\n{TAKES}" + "".join(wrapped)


def of_another_kind(exercise: Exercise, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Answers that no check can judge, in place of data and its numbers: what they are, and the code."""
    solution, names = as_computed(exercise, values), sorted(asked(exercise) & {*values})
    data = [name for name in names if not callable(values[name])]
    for what, other in NO_NUMBERS.items() if data else ():
        changed = "".join(f"{name} = _of_another_type({name}, lambda x: {other})\n" for name in data)
        yield f"numbers that are {what}", f"{solution}\n{NUMBERS}{changed}"
    for what, other in NO_ANSWERS.items() if data else ():
        yield what, solution + "".join(f"\n{name} = {other}" for name in data)


def filled_in(exercise: Exercise, code: str) -> str:
    """A cell of RIGHT: the code itself if it binds what is asked, or else a function that has it inside."""
    function = ast.parse(exercise.cells["answer"]).body[0]
    assert isinstance(function, ast.FunctionDef)
    if not re.search(rf"^((def|class) )?{function.name}\b", code, re.MULTILINE):
        *before, last = ast.parse(code).body
        function.body = [*before, ast.Return(last.value) if isinstance(last, ast.Expr) else last]
        code = ast.unparse(function)
    return f"{LIBRARIES}\n\n{code}"


def other_callables(exercise: Exercise, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The solution with other things to call than its functions: what they are, and the code."""
    functions = [name for name in sorted(asked(exercise)) if callable(values.get(name))]
    for what, call in CALLABLES.items() if functions else ():
        wrapped = (f"{name} = (lambda FUNCTION: {call})({name})\n" for name in functions)
        if what != "in inference mode" or exercise.label not in NEEDS_GRADIENTS:
            yield what, f"{as_computed(exercise, values)}\n\n\n" + "".join(wrapped)


def spoiling(exercise: Exercise, values: dict[str, Any]) -> str:
    """The solution as functions that leave their arguments in ruins."""
    functions = [name for name in sorted(asked(exercise)) if callable(values.get(name))]
    spoils = "".join(f"{name} = _that_spoils({name})\n" for name in functions)
    return f"{as_computed(exercise, values)}\n{SPOILS}{spoils}"
