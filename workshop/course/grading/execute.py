"""Running a submission: each cell within its time and output, the rest of the notebook whatever one cell does."""

import ast
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from nbclient.exceptions import CellTimeoutError, DeadKernelError  # pyright: ignore[reportMissingImports]
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute  # pyright: ignore[reportMissingImports]
from traitlets import Integer, Unicode

BEGIN = "### BEGIN HIDDEN TESTS"
SHOWING = 3  # the last statements of a visible check: it asks, prints and asserts
STOPPED = {"ename": "TimeoutError", "evalue": "", "traceback": []}  # nbclient's output for a cell out of time
IDLE_SECONDS = 5  # for a kernel to come to rest after its cell was stopped
LIMITS = ("GRADING_MEMORY_MB", "GRADING_CPU_SECONDS", "GRADING_FILE_MB", "GRADING_NETWORK")
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", *LIMITS)


def error_output(name: str, message: str) -> Any:
    return new_output("error", ename=name, evalue=message, traceback=[f"{name}: {message}"])


class BoundedExecute(Execute):
    """nbgrader's execution, which would stop at a dead or deaf kernel and keep all that a cell prints."""

    cell_seconds = Integer(20, help="for one cell of the student's or one check").tag(config=True)
    setup_seconds = Integer(180, help="for one cell of the chapter's").tag(config=True)
    notebook_seconds = Integer(600, help="for the whole notebook").tag(config=True)
    output_kilobytes = Integer(32, help="of what one cell prints").tag(config=True)
    matplotlib_folder = Unicode("", help="a folder for matplotlib's cache of fonts").tag(config=True)
    # What happened in this process's notebook, for the report.
    events: list[str] = []  # noqa: RUF012

    def preprocess(self, nb: Any, resources: Any, km: Any = None) -> tuple[Any, Any]:
        self.timeout_func = lambda cell: self.setup_seconds if self._role(cell) == "setup" else self.cell_seconds
        self.error_on_timeout = STOPPED
        self.iopub_timeout = IDLE_SECONDS
        self.extra_arguments = ["--HistoryManager.enabled=False"]
        self.deadline = time.monotonic() + self.notebook_seconds
        self.to_replay: list[tuple[Any, str, int]] = []
        self.printed = 0
        # Sockets lie in the runtime folder, and their names must be short.
        self.folder = tempfile.mkdtemp(prefix="grade-", dir="/tmp")
        os.environ["JUPYTER_RUNTIME_DIR"] = self.folder
        try:
            return super().preprocess(nb, resources)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def create_kernel_manager(self) -> Any:
        """A manager that talks over sockets in the runtime folder: so it reaches a kernel that has no network."""
        manager = super().create_kernel_manager()
        manager.transport = "ipc"
        manager.ip = str(Path(tempfile.mkdtemp(dir=self.folder)) / "k")
        return manager

    def start_new_kernel(self, **options: Any) -> None:
        """Start a kernel in an empty folder, with few of the grader's environment variables."""
        home = tempfile.mkdtemp(dir=self.folder)
        environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        environment |= {
            "HOME": home,
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "TOKENIZERS_PARALLELISM": "false",
        }
        environment |= {"JUPYTER_RUNTIME_DIR": self.folder, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        # `!pip install` in a student's cell must not change the environment in which the next one is graded.
        environment |= {"PIP_TARGET": str(Path(home, "site")), "PIP_NO_INDEX": "1"}
        if self.matplotlib_folder:
            environment["MPLCONFIGDIR"] = self.matplotlib_folder
        super().start_new_kernel(**{**options, "cwd": home, "env": environment})

    @staticmethod
    def _role(cell: Any) -> str:
        """`check`, `setup` (a cell of the chapter's) or `student`."""
        nbgrader = cell.metadata.get("nbgrader", {})
        if nbgrader.get("grade") and not nbgrader.get("solution"):
            return "check"
        return "setup" if nbgrader.get("locked") else "student"

    def _definitions(self, answer: str, cell: Any) -> str:
        """What the visible check of an answer defines, which the hidden one may use; nothing for the former itself."""
        for other in self.nb.cells:
            if other.metadata.get("book", {}).get("answer") == answer and other is not cell:
                body = ast.parse(other.source).body[:-SHOWING]
                return ast.unparse(ast.Module(body, [])) if BEGIN in cell.source else ""
        return ""

    def _sent(self, cell: Any, role: str) -> str:
        """What the kernel is given to run in the place of a cell's source."""
        book = cell.metadata.get("book", {})
        arguments = [cell.source, list(book.get("names" if role == "check" else "binds", []))]
        if role == "check":
            arguments.append(self._definitions(book.get("answer", ""), cell))
        if role == "student" or "%pip" in cell.source:
            return cell.source
        return f"__import__('_grader').{role}(*__import__('json').loads({json.dumps(arguments)!r}))"

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        if cell.cell_type != "code" or not cell.source.strip():
            return cell, resources
        role = self._role(cell)
        name = cell.metadata.get("nbgrader", {}).get("grade_id") or "a cell of the student's own"
        if time.monotonic() > self.deadline:
            cell.outputs = [error_output("TimeoutError", f"the notebook took longer than {self.notebook_seconds} s")]
            self.note(f"{name}: not run, the notebook took longer than {self.notebook_seconds} s")
            return cell, resources
        survived = self._run(cell, self._sent(cell, role), index, name)
        if survived and role != "check":
            self.to_replay.append((cell, role, index))
        if role == "check":
            cell.outputs = [self._fair(output) for output in cell.outputs if output.output_type != "execute_result"]
        return cell, resources

    def _run(self, cell: Any, source: str, index: int, name: str) -> bool:
        """Run `source` as the cell; False if the cell was stopped or the kernel did not live through it."""
        own, cell.source, self.printed = cell.source, source, 0
        try:
            self.execute_cell(cell, index, store_history=False)
        except (DeadKernelError, CellTimeoutError) as error:
            dead = isinstance(error, DeadKernelError)
            seconds = self.timeout_func(cell)
            message = "the kernel ended while this ran" if dead else f"could not be stopped after {seconds} s"
            cell.outputs = [*cell.outputs, error_output("DeadKernelError" if dead else "TimeoutError", message)]
            self.note(f"{name}: {message}; a new kernel went on with the rest")
            cell.source = own
            self._restart()
            return False
        finally:
            cell.source = own
        stopped = [out for out in cell.outputs if out.output_type == "error" and out.ename == STOPPED["ename"]]
        for error in stopped:
            error.evalue = f"stopped after {self.timeout_func(cell)} s"
            self.note(f"{name}: {error.evalue}")
        if self.printed > self.output_kilobytes << 10:
            self.note(f"{name}: printed more than {self.output_kilobytes} KB; the rest was dropped")
        return not stopped

    def _restart(self) -> None:
        """A new kernel, in which the cells that ended well have run again."""
        if self.km is not None:
            self._cleanup_kernel()
        self.km = self.create_kernel_manager()
        self.start_new_kernel()
        self.start_new_kernel_client()
        again, self.to_replay = self.to_replay, []
        for cell, role, index in again:
            copy = type(cell)(cell)
            if time.monotonic() < self.deadline and self._run(copy, self._sent(cell, role), index, "a cell run again"):
                self.to_replay.append((cell, role, index))
            self.nb.cells[index] = cell  # nbclient put the copy there; its first outputs stay

    def output(self, outs: Any, msg: Any, display_id: Any, cell_index: int) -> Any:
        """Keep an output while the cell has not printed its share."""
        content = msg["content"]
        if msg["msg_type"] == "stream":
            room = (self.output_kilobytes << 10) - self.printed
            self.printed += len(content["text"])
            if room <= 0:
                return None
            content["text"] = content["text"][:room]
        elif msg["msg_type"] in {"display_data", "execute_result"}:
            self.printed += sum(len(str(value)) for value in content["data"].values()) // 32  # pictures are long
            if self.printed > self.output_kilobytes << 10:
                return None
        return super().output(outs, msg, display_id, cell_index)

    @staticmethod
    def _fair(output: Any) -> Any:
        """nbgrader takes a check that writes to stderr for a failed one; a warning is no mistake."""
        if output.output_type == "stream":
            output.name = "stdout"
        if output.output_type == "error":  # nothing of the check's source
            output.traceback = [f"{output.ename}: {output.evalue}"]
        return output

    def note(self, event: str) -> None:
        if event not in self.events:
            self.events.append(event)
