"""Pytest in a process forked from one that has imported torch already: a run costs one second instead of eight.

The process that is forked never imports the library, so each run imports the copy in its own folder.
"""

import contextlib
import multiprocessing
import os
import resource
from pathlib import Path
from typing import NamedTuple

PRELOADED = """numpy.testing torch.testing torch._dynamo torch._inductor torch.distributed safetensors.torch tokenizers
sympy beartype.claw jaxtyping pytest _pytest.unittest pytest_timeout xdist.plugin anyio.pytest_plugin
hypothesis.strategies hypothesis.internal.conjecture.engine _hypothesis_pytestplugin""".split()
QUIET = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins are imported before pytest can rewrite them
ROOT = Path(__file__).resolve().parents[2]
MEMORY = 8 * 2**30  # bytes


class Done(NamedTuple):
    """How a run of pytest ended, and what it printed."""

    returncode: int
    output: str


def _run(folder: str, arguments: list[str], report: str) -> None:
    import pytest

    os.chdir(folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, str(ROOT)])  # of the programs that a test starts
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))  # a fault may take memory without end
    with Path(report).open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
            status = pytest.main([*QUIET, "-o", f"pythonpath={folder}", *arguments])
    os._exit(int(status))  # without the exit handlers that the fork inherited


def run_pytest(folder: Path, arguments: list[str], timeout: float = 300.0) -> Done:
    """Run pytest with the folder first on the path.

    Raises:
        TimeoutError: it took longer than so many seconds, and was ended.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED])
    report = folder / "pytest.txt"
    process = context.Process(target=_run, args=(str(folder), arguments, str(report)))
    process.start()
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
        raise TimeoutError(f"pytest took longer than {timeout:.0f} s: {' '.join(arguments)}")
    return Done(process.exitcode or 0, report.read_text("utf-8"))
