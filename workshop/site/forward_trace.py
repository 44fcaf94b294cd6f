"""One sentence through a chapter's small model, line by line: what each line of the library bound or returned.

The chapter's own cells train the model, and Python's own tracing watches its forward pass, so nothing here can drift
from either.
"""

import contextlib
import io
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transformer_lib import Transformer, record_attention
from transformer_lib.data.batches import Batch
from workshop.course.exercises import tags
from workshop.site.book_index import read_page
from workshop.site.forward_functions import Function, function_of

CHAPTER = Path(__file__).resolve().parents[2] / "book" / "encoder_decoder.md"
PAIR = ("forty seven", "sieben und vierzig")


class Step(NamedTuple):
    """A call, or a line that bound or returned tensors."""

    frame: int
    lines: tuple[int, int]
    values: dict[str, int]  # name → index into the tensors of the trace
    sizes: dict[str, float]  # numbers that a call was given
    ids: list[str]  # of the paper, met by a call
    call: bool  # whether it is one


@dataclass
class Frame:
    """A call: its function, the frame it came from, and which module of the model it belongs to."""

    function: Function
    caller: int | None
    module: str
    lines: tuple[int, int] = (0, 0)  # of the statement that runs
    known: dict[str, int] = field(default_factory=dict)


class Trace:
    """Every step of one forward pass, and every tensor once."""

    def __init__(self, model: Transformer):
        self.modules = {id(module): name for name, module in model.named_modules()}
        self.steps: list[Step] = []
        self.frames: list[Frame] = []
        self.tensors: list[Tensor] = []
        self._places: dict[tuple[Any, ...], int] = {}
        self._open: dict[FrameType, int] = {}

    def place(self, tensor: Tensor) -> int:
        """The index of a tensor of these values, which is kept as it is now."""
        key = (tensor.dtype, tensor.shape, tensor.contiguous().numpy().tobytes())
        if key not in self._places:
            self._places[key] = len(self.tensors)
            self.tensors.append(tensor.clone())
        return self._places[key]

    def bound(self, frame: FrameType) -> dict[str, int]:
        own = frame.f_code.co_varnames + frame.f_code.co_cellvars
        return {n: self.place(value) for n, value in frame.f_locals.items() if n in own and isinstance(value, Tensor)}

    def enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        """What `sys.settrace` calls: watch the library's functions, and no others."""
        function = function_of(frame.f_code)
        if function is None:
            return None
        caller = next(reversed(self._open.values()), None)
        ids = function.ids_met(None if caller is None else self.frames[caller].function)
        known = self.bound(frame)
        sizes = {name: value for name, value in frame.f_locals.items() if type(value) in {int, float}}
        module = self.modules.get(id(frame.f_locals.get("self")), "")
        self._open[frame] = len(self.frames)
        self.steps.append(Step(len(self.frames), function.head, known, sizes, ids, call=True))
        self.frames.append(Frame(function, caller, module, known=known))
        return self.watch

    def watch(self, frame: FrameType, event: str, argument: Any) -> Any:
        """At the next statement, or at the return, note what the last statement bound."""
        here = self.frames[self._open[frame]]
        lines = here.function.spans.get(frame.f_lineno, here.lines)
        if event == "return" or (event == "line" and lines != here.lines):
            now = self.bound(frame)
            fresh = {name: place for name, place in now.items() if here.known.get(name) != place}
            if event == "return":
                parts = (argument,) if isinstance(argument, Tensor) else argument or ()
                fresh |= zip(here.function.returns(here.lines[0]), map(self.place, parts), strict=False)
            only_hands_on = event == "return" and list(fresh.values()) == list(self.steps[-1].values.values())
            if fresh and not only_hands_on:
                self.steps.append(Step(self._open[frame], here.lines, fresh, {}, [], call=False))
            here.known, here.lines = now, lines
        if event == "return":
            del self._open[frame]
        return self.watch


@cache
def chapter() -> dict[str, Any]:
    """What the chapter's cells have bound once they have trained `model`, among it `tokenizer` and `as_batch`."""
    blocks = read_page(CHAPTER).blocks
    bound: dict[str, Any] = {}
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(io.StringIO()):
        for cell in (block.text for block in blocks if "hide-input" in tags(block)):
            exec(cell, bound)
            if "model" in bound:
                break
    torch.set_num_threads(threads)
    return bound


@cache
def sentence() -> Batch:
    return chapter()["as_batch"]([PAIR])


@cache
def trace() -> Trace:
    """The forward pass of the pair, with equation (1) written out, as the library has it when weights are recorded."""
    model, batch = chapter()["model"], sentence()
    found = Trace(model)
    before = sys.gettrace()
    with record_attention(model), torch.no_grad():
        sys.settrace(found.enter)
        try:
            model(batch.source, batch.target_input)
        finally:
            sys.settrace(before)
    return found
