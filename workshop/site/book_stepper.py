"""The place where a reader steps through one forward pass, and the script that it loads on request."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from torch import Tensor

from workshop.lab.correspondence import chapters
from workshop.lab.paper_ids import PAPER_IDS
from workshop.site.book_live import parts, script
from workshop.site.filled import filled
from workshop.site.forward_functions import Function, functions
from workshop.site.forward_trace import CHAPTER, Step, Trace, chapter, sentence, trace

TEMPLATE = Path(__file__).with_name("live_stepper.html")
TERMS = Path(__file__).with_name("forward_terms.toml")
SOURCES = (TEMPLATE, TERMS, CHAPTER, *(function.file for function in functions().values()))
NAME = "forward_trace"
FILES = "live.css stepper.css runtime.js heat_maps.js step_values.js stepper.js".split()
DIGITS = 4  # significant ones, of every number on the page


@cache
def terms() -> dict[str, dict[str, tuple[str, str]]]:
    """Function → name that a line binds → its axes and the paper's term, as HTML."""
    return tomllib.loads(TERMS.read_text("utf-8"))


def numbers(tensor: Tensor) -> list[float]:
    """The values in order, in a few significant digits; True is 1."""
    if not tensor.is_floating_point():
        return tensor.flatten().int().tolist()
    return [float(f"{value:.{DIGITS}g}") + 0.0 for value in tensor.flatten().tolist()]  # + 0.0: no -0.0


def listing(function: Function) -> list[tuple[int, str]]:
    """The number and the coloured text of each line of a function, without its docstrings."""
    lines = function.file.read_text("utf-8").splitlines()
    first, last = function.node.lineno, function.node.end_lineno or function.node.lineno
    hidden = set[int]()
    for node in ast.walk(function.node):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            hidden |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    shown = [number for number in range(first, last + 1) if number not in hidden]
    text = "\n".join(lines[number - 1][function.node.col_offset :] for number in shown)
    coloured = highlight(text, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)).rstrip("\n").split("\n")
    return list(zip(shown, coloured, strict=True))


def around(function: Function) -> Function:
    """The function that stands in no other: itself, or the one around it."""
    place, name = str(function.file), function.name
    while (outer := (place, name.rpartition(".")[0])) in functions():
        name = outer[1]
    return functions()[place, name]


def functions_of(found: Trace) -> Iterator[dict[str, Any]]:
    """What the page knows of each function that ran, in the order of the frames."""
    for function in dict.fromkeys(frame.function for frame in found.frames):
        summary, formula = function.words
        yield {
            "name": function.name,
            "file": function.file.name,
            "lines": listing(around(function)),
            "summary": summary,
            "formula": formula,
            "ids": function.ids,
        }


def values_of(step: Step, found: Trace) -> Iterator[tuple[str, int, list[str], str]]:
    """Name, tensor, axes and term of each value of a step."""
    function = found.frames[step.frame].function
    for name, place in step.values.items():
        axes, term = terms().get(function.name, {}).get(name, ("", ""))
        yield name, place, function.axes(name, found.tensors[place], axes), "" if step.call else term


def description() -> dict[str, Any]:
    """All that the page must know of the pass, to be written as JSON."""
    found, batch, tokenizer = trace(), sentence(), chapter()["tokenizer"]
    ran = list(dict.fromkeys(frame.function for frame in found.frames))
    places = chapters()
    return {
        "words": {
            "source": tokenizer.tokens(batch.source[0].tolist()),
            "target": tokenizer.tokens(batch.target_input[0].tolist()),
        },
        "vocabulary": tokenizer.tokens(list(range(len(tokenizer)))),
        "ids": {
            one: {"says": PAPER_IDS[one][1], "place": PAPER_IDS[one][0], "href": f"{places[one][0]}.html#{one}"}
            for one in dict.fromkeys(one for step in found.steps for one in step.ids)
        },
        "functions": list(functions_of(found)),
        "frames": [
            {"function": ran.index(frame.function), "caller": frame.caller, "module": frame.module}
            for frame in found.frames
        ],
        "tensors": [
            {"shape": list(tensor.shape), "type": str(tensor.dtype).removeprefix("torch."), "values": numbers(tensor)}
            for tensor in found.tensors
        ],
        "steps": [step._asdict() | {"values": list(values_of(step, found))} for step in found.steps],
    }


@cache
def payloads() -> dict[str, str]:
    return {NAME: script(NAME, description())}


def page_html(static: str) -> str:
    return filled(TEMPLATE.name, static=static, parts=parts(payloads()), digits=DIGITS)
