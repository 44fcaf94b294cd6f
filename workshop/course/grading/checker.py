"""Runs one notebook after the other, under the interpreter of .venv: cells in a sandbox, checks in this process.

It reads a notebook's cells as a line of JSON, and answers with their outputs. What a student defined stays in the
sandbox. A check, with the chapter's own names and imports, runs here on plain copies of the answers, and calls the
student's functions across the wall (wire.py): nothing that a cell patches, replaces or looks for is in this process.
"""

import contextlib
import io
import json
import os
import re
import resource
import signal
import socket
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from workshop.course.exercise_context import plain_python
from workshop.course.grading.sandbox import Limits, Sandbox
from workshop.course.grading.submissions import BASE64, readable
from workshop.course.grading.wire import Gone, Stopped, Wire, alarm, used

START_SECONDS = 120  # for the interpreter in a sandbox
SETUP_SECONDS = 180  # for one cell of the chapter's
GRACE_SECONDS = 5  # in which code that was told to stop may do so
LETTERS = 2000  # of a message
STOPPED = "stopped after {:.0f} s by the clock: an endless loop, or a busy machine; ask your instructor"
CELL = re.compile(r"<ipython-input-[^>]*>, ")  # a name of the kernel's for a cell, which no student has seen
Output = dict[str, Any]
Cell = dict[str, Any]


def error_output(name: str, message: str) -> Output:
    message = CELL.sub("", readable(message))
    message = message[:LETTERS] + " …" if len(message) > LETTERS else message
    name = readable(name)[:100]
    return {"output_type": "error", "ename": name, "evalue": message, "traceback": [f"{name}: {message}"]}


def _plain(output: Any) -> Output:
    """An output as a sandbox told it, with what is known of outputs and nothing else."""
    if output["output_type"] == "stream":
        name = "stderr" if output["name"] == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": readable(output["text"])}
    data = {"text/plain": readable(output["data"].get("text/plain", ""))}
    if BASE64.fullmatch(picture := str(output["data"].get("image/png", ""))) and picture:
        data["image/png"] = picture
    return {"output_type": "display_data", "data": data, "metadata": {}}


class Chapter:
    """The chapter's own cells, run here once: what each check may use beside the answer."""

    def __init__(self, cells: list[Cell]):
        given: dict[str, Any] = {"__name__": "__main__"}
        self.spaces: dict[str, dict[str, Any]] = {}
        self.faults: list[str] = []
        for cell in cells:
            if cell["role"] == "setup" and "%pip" not in cell["source"]:
                try:
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(compile(plain_python(cell["source"]), "<chapter>", "exec"), given)
                except Exception as error:
                    self.faults.append(f"{cell['name']}: failed in the grader, {type(error).__name__}: {error}")
            elif cell["role"] == "check":
                self.spaces[cell["id"]] = dict(given)


def as_it_was() -> None:
    """The state in which every check begins."""
    import random

    random.seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


class Run:
    """One notebook on its way."""

    def __init__(self, cells: list[Cell], chapter: Chapter, limits: Limits, fonts: Path):
        self.cells, self.chapter, self.limits, self.fonts = cells, chapter, limits, fonts
        self.deadline = time.monotonic() + limits.notebook_seconds
        self.ended_well: list[Cell] = []
        self.events = [*chapter.faults]
        self.numbers: dict[str, Any] = {}  # drawn for the student: what the checks read, and no cell of the student's
        for cell in (cell for cell in cells if cell["role"] == "numbers"):
            exec(compile(cell["source"], "<numbers>", "exec"), self.numbers)
        self.cpu_seconds = 0.0  # of the sandbox that was the last, as its process says
        self.sandbox: Sandbox | None = None
        self.wire: Wire | None = None

    def whole(self) -> list[list[Output]]:
        """The outputs of all cells."""
        try:
            outputs = [self._cell(cell) for cell in self.cells]
            if self.sandbox and self.sandbox.is_walled:  # bubblewrap does not hand on what it used
                with contextlib.suppress(Exception, Gone):
                    self.cpu_seconds = float(self._ask(GRACE_SECONDS, do="used"))
            return outputs
        finally:
            self.stop(GRACE_SECONDS)

    def note(self, event: str) -> None:
        if event not in self.events:
            self.events.append(event)

    def _note_missing(self, cell: Cell, kind: str, message: str) -> None:
        """A missing package costs points for no mistake of the student's: whoever grades must hear of it."""
        if kind == ModuleNotFoundError.__name__:
            said = " ".join(readable(message).split())[:100]  # the report has a line for each event
            self.note(f"{cell['name']}: {said} where answers are graded")

    def stop(self, seconds: float = 0) -> None:
        if self.wire:
            self.wire.connection.close()
        if self.sandbox:
            self.sandbox.stop(seconds)
        self.wire = self.sandbox = None

    def _start(self) -> Wire:
        """A new sandbox, in which the cells that ended well run again."""
        mine, theirs = socket.socketpair()
        with theirs:
            self.sandbox = Sandbox(self.limits, theirs.fileno(), self.fonts)
        self.wire = Wire(Connection(mine.detach()), is_grader=True)
        self._ask(START_SECONDS, do="answers", names=[], without=[])
        again, self.ended_well = self.ended_well, []
        for cell in again:
            if time.monotonic() < self.deadline and self._tell(cell)["error"] is None:
                self.ended_well.append(cell)
        return self.wire

    def _ask(self, within: float, **message: Any) -> Any:
        """What the sandbox answers to a message, within so many seconds.

        Raises:
            Exception: what it raised there.
            Gone: if there is no answer that can be read.
        """
        wire = self.wire or self._start()
        try:
            with alarm(within + GRACE_SECONDS):
                return wire.ask(**message)
        except Stopped:
            raise Gone(f"could not be stopped after {within:.0f} s") from None

    def _seconds(self, cell: Cell) -> float:
        own = SETUP_SECONDS if cell["role"] == "setup" else self.limits.cell_seconds
        return min(own, max(1.0, self.deadline - time.monotonic()))

    def _tell(self, cell: Cell) -> dict[str, Any]:
        """Let the sandbox run a cell; outputs, error and whether it printed too much, checked for their form."""
        seconds, message = self._seconds(cell), {"source": cell["source"]}
        if cell["role"] == "setup" and "%pip" not in cell["source"]:
            answer = self._ask(seconds, do="setup", names=cell["names"], seconds=seconds, **message)
        else:
            answer = self._ask(seconds, do="run", seconds=seconds, without=cell["without"], **message)
        try:
            outputs = [_plain(output) for output in answer["outputs"]]
            error = None if answer["error"] is None else [str(part) for part in answer["error"]]
            return {"outputs": outputs, "error": error, "much": bool(answer["much"])}
        except (TypeError, LookupError, AttributeError, ValueError):
            raise Gone("the kernel sent an invalid message") from None

    def _cell(self, cell: Cell) -> list[Output]:
        name = cell["name"]
        if cell["role"] == "numbers":
            return []  # an answer that read them would be right for everybody
        if time.monotonic() > self.deadline:
            message = f"the notebook took longer than {self.limits.notebook_seconds} s"
            self.note(f"{name}: not run, {message}")
            return [error_output("TimeoutError", message)]
        try:
            return self._check(cell) if cell["role"] == "check" else self._code(cell)
        except Gone as gone:
            self.note(f"{name}: {gone}; a new kernel went on with the rest")
            self.stop()
            return [error_output("DeadKernelError", str(gone))]

    def _code(self, cell: Cell) -> list[Output]:
        told = self._tell(cell)
        outputs = told["outputs"]
        if told["much"]:
            self.note(f"{cell['name']}: printed more than {self.limits.output_kilobytes} KB; the rest was dropped")
        if told["error"] is None:
            self.ended_well.append(cell)
        elif told["error"][0] == Stopped.__name__:
            message = STOPPED.format(self._seconds(cell))
            self.note(f"{cell['name']}: {message}")
            outputs.append(error_output("TimeoutError", message))
        else:
            self.ended_well.append(cell)  # it may have defined something before
            outputs.append(error_output(*told["error"]))
            self._note_missing(cell, *told["error"])
            for name in self.numbers:
                if told["error"] == ["NameError", f"name '{name}' is not defined"]:
                    self.note(f"{cell['name']}: reads {name}, which is unknown to an answer; write the number itself")
        return outputs

    def _check(self, cell: Cell) -> list[Output]:
        """Run a check on plain copies of the answers."""
        wire = self.wire or self._start()
        seconds = self._seconds(cell)
        end = time.monotonic() + seconds
        wire.forget()
        wire.seconds = lambda: max(0.1, end - time.monotonic())
        printed = io.StringIO()
        try:
            encoded = self._ask(seconds, do="answers", names=cell["names"], without=cell["without"])
            with alarm(seconds + GRACE_SECONDS), contextlib.redirect_stdout(printed):
                answers = {name: wire.decode(encoded[name]) for name in cell["names"] if name in encoded}
                space = {**self.chapter.spaces[cell["id"]], **self.numbers, **answers}
                as_it_was()
                exec(compile(cell["source"], "<check>", "exec"), space)
        except Stopped as stopped:
            message = STOPPED.format(seconds)
            self.note(f"{cell['name']}: {message}")
            if not stopped.args:  # it was stopped on this side; the other may still be at it
                self.stop()
            return [error_output("TimeoutError", message)]
        except Exception as error:
            self._note_missing(cell, type(error).__name__, str(error))
            line = getattr(error, "line", "")
            before = f"This came up in your line `{readable(line)}`:\n" if line else ""
            text = {"output_type": "stream", "name": "stdout", "text": before + readable(printed.getvalue())[:LETTERS]}
            return [*([text] if text["text"] else []), error_output(type(error).__name__, str(error))]
        return [{"output_type": "stream", "name": "stdout", "text": readable(printed.getvalue())[:LETTERS]}]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    fonts = Path(os.environ["MPLCONFIGDIR"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    chapter, made_of, before = None, "", 0.0
    for line in sys.stdin:
        request = json.loads(line)
        limits = Limits(**request["limits"])
        resource.setrlimit(resource.RLIMIT_DATA, (limits.memory_mb << 20, resource.RLIM_INFINITY))
        own = json.dumps([cell for cell in request["cells"] if cell["role"] not in {"student", "numbers"}])
        if chapter is None or own != made_of:
            chapter, made_of = Chapter(request["cells"]), own
        run = Run(request["cells"], chapter, limits, fonts)
        outputs = run.whole()
        answer = {"outputs": outputs, "events": run.events, "cpu_seconds": used() - before + run.cpu_seconds}
        before = used()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
