"""Runs inside the sandbox: a student's cells, as a notebook would, and the calls that the checks make.

Nothing in this process is believed. It tells the grader, over a socket, what the cells printed and which values the
student's names have; the checks, their marks and everybody else's work are elsewhere.
"""

import base64
import builtins
import contextlib
import os
import random
import sys
from multiprocessing.connection import Connection
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from workshop.course.grading.refusal import refused
from workshop.course.grading.wire import Gone, Stopped, Wire, alarm, kept, used

DEPTH = sys.getrecursionlimit()
SHOWN = ("text/plain", "image/png")


class Printed:
    """Takes the place of sys.stdout or sys.stderr."""

    encoding, errors, closed = "utf-8", "replace", False

    def __init__(self, name: str, student: "Student"):
        self.name, self.student = name, student

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.student.keep({"output_type": "stream", "name": self.name, "text": text}, len(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


class Student:
    """The namespace of one notebook."""

    def __init__(self, kilobytes: int):
        self.shell = shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
        shell.showtraceback = shell.showsyntaxerror = shell.showindentationerror = lambda *_, **__: None
        shell.enable_gui = lambda gui=None: None
        shell.display_pub.publish = lambda data, *_, **__: self.display(data)
        shell.displayhook.write_output_prompt = lambda: None
        shell.displayhook.write_format_data = lambda format_dict, md_dict=None: self.display(format_dict)
        self.given: dict[str, Any] = {"__name__": "__main__"}
        self.most, self.outputs, self.printed = kilobytes << 10, [], 0
        self.refusal = contextlib.ExitStack()  # of the functions that the answer in hand must not call
        handlers = {"run": self.run, "setup": self.setup, "answers": self.answers, "used": used}
        self.wire = Wire(Connection(int(sys.argv[1])), False, handlers)

    def keep(self, output: dict[str, Any], size: int) -> None:
        """Keep an output while the cell has not printed its share."""
        room, self.printed = self.most - self.printed, self.printed + size
        if room <= 0:
            return
        if output["output_type"] == "stream":
            output["text"] = output["text"][:room]
            if self.outputs and self.outputs[-1].get("name") == output["name"]:
                self.outputs[-1]["text"] += output["text"]
                return
        self.outputs.append(output)

    def display(self, data: dict[str, Any]) -> None:
        kept = {kind: data[kind] for kind in SHOWN if kind in data}
        kept = {k: base64.b64encode(x).decode() if isinstance(x, bytes) else str(x) for k, x in kept.items()}
        size = len(kept.get("text/plain", "")) + len(kept.get("image/png", "")) // 32  # pictures are long
        self.keep({"output_type": "display_data", "data": kept}, size)

    def fresh(self) -> None:
        """Undo the settings that a cell may have left behind and the next cells or the checks rely on."""
        self.outputs, self.printed = [], 0
        sys.stdout, sys.stderr = Printed("stdout", self), Printed("stderr", self)
        sys.setrecursionlimit(DEPTH)
        random.seed(1)
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed(1)
        if torch := sys.modules.get("torch"):
            torch.manual_seed(1)
            torch.set_default_dtype(torch.float32)
            torch.set_grad_enabled(True)

    def without(self, functions: list[str]) -> None:
        """Let these functions refuse from now on, and no others."""
        self.refusal.close()
        self.refusal.enter_context(refused(functions))

    def run(self, source: str, seconds: float, without: list[str]) -> dict[str, Any]:
        """Run a cell of the student's; what it printed, the error that ended it."""
        self.fresh()
        self.without(without)
        error: BaseException | None = None
        try:
            with alarm(seconds):
                result = self.shell.run_cell(source, store_history=False)
            error = result.error_before_exec or result.error_in_exec
        except BaseException as raised:
            error = raised
        told = [type(error).__name__, str(error)] if error else None
        outputs, printed = self.outputs, self.printed
        self.fresh()
        return {"outputs": outputs, "error": told, "much": printed > self.most}

    def setup(self, source: str, names: list[str], seconds: float) -> dict[str, Any]:
        """Run a cell of the chapter in a namespace of its own, and hand its names to the student.

        A helper of the chapter then goes on calling the chapter's other helpers, also where the student reuses a name.
        """
        self.fresh()
        self.without([])
        told = None
        try:
            with alarm(seconds):
                exec(compile(self.shell.transform_cell(source), "<chapter>", "exec"), self.given)
        except (Exception, Stopped) as error:
            told = [type(error).__name__, str(error)]
        self.shell.user_ns.update({name: self.given[name] for name in names if name in self.given})
        return {"outputs": self.outputs, "error": told, "much": False}

    def answers(self, names: list[str], without: list[str]) -> dict[str, Any]:
        """The values of the student's names, for the checks, whose calls then reach none of these functions."""
        self.fresh()
        self.without(without)
        self.wire.forget()
        own = self.shell.user_ns
        own.update({name: kept(own[name]) for name in names if name in own})
        return {name: self.wire.encode(own[name]) for name in names if name in own}


def main() -> None:
    builtins.input = lambda *_: (_ for _ in ()).throw(EOFError("nobody answers while this is graded"))
    try:
        Student(int(sys.argv[2])).wire.serve_forever()
    except Gone:
        os._exit(0)  # the grader has hung up


if __name__ == "__main__":
    main()
