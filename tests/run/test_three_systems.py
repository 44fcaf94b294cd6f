"""What Linux, macOS and Windows ask of the code, as far as one of them can tell."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transformer_run.update import available_device

ROOT = Path(__file__).resolve().parents[2]
# Windows has none of these. What the dependencies imported before stays: they have a way of their own there.
ELSEWHERE = """
import importlib, os, pkgutil, signal, sys
import filelock, jaxtyping, numpy, safetensors.torch, torch.distributed, torch.nn.parallel, torch.utils.checkpoint
for name in ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None  # its import is an error now
for module, names in (
    (os, "fork forkpty getuid geteuid killpg mkfifo register_at_fork sched_getaffinity setsid uname".split()),
    (signal, "SIGKILL SIGSTOP SIGCONT SIGHUP SIGALRM SIGUSR1 setitimer pthread_sigmask".split()),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
import transformer_lib
names = [module.name for module in pkgutil.walk_packages(transformer_lib.__path__, "transformer_lib.")]
for name in names:
    if name != "transformer_lib.__main__":
        importlib.import_module(name)
print(len(names))
"""


def run(code: str, folder: Path) -> str:
    (folder / "program.py").write_text(code, "utf-8")
    done = subprocess.run(
        [sys.executable, folder / "program.py"], cwd=ROOT, capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_the_library_imports_where_there_is_no_posix(tmp_path: Path) -> None:
    assert int(run(ELSEWHERE, tmp_path)) > 25


def texts_without_encoding(source: str) -> list[int]:
    """The lines that open a text file in the encoding of the system, which differs."""
    lines = []
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        named = any(keyword.arg == "encoding" for keyword in call.keywords)
        place = {"read_text": 1, "write_text": 2}.get(name)
        if place and not named and len(call.args) < place:
            lines.append(call.lineno)
        if (
            name == "open"
            and not named
            and owner not in {"os", "Image", "Run", "tarfile"}
            and not owner.startswith("zipfile.")
        ):
            modes = [part.value for part in call.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            lines += [] if any("b" in mode and len(mode) <= 3 for mode in modes) else [call.lineno]
    return lines


def test_every_text_file_names_its_encoding() -> None:
    without = 'path.open()\npath.read_text()\npath.write_text(text)\nopen(name, "w")'
    named = 'path.open("rb")\npath.read_text("utf-8")\nopen(name, "w", encoding="utf-8")'
    assert texts_without_encoding(f"{without}\n{named}") == [1, 2, 3, 4]
    folders = ("transformer_lib", "transformer_run", "workshop", "experiments", "benchmarks")
    files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
    found = [f"{file.name}:{line}" for file in files for line in texts_without_encoding(file.read_text("utf-8"))]
    assert len(files) > 100
    assert found == []


@pytest.mark.parametrize(
    ("cuda", "mps", "rank", "device"),
    [
        (True, True, False, "cuda"),
        (True, False, True, "cuda"),
        (False, True, False, "mps"),
        (False, True, True, "cpu"),
        (False, False, False, "cpu"),
    ],
)
def test_the_device_is_cuda_then_mps_then_cpu(
    monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, rank: bool, device: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.delenv("RANK", raising=False)
    if rank:
        monkeypatch.setenv("RANK", "0")
    assert available_device() == device
