"""Write the locks: what a fresh environment with the extras [book,test], or with [grading], holds today.

python workshop/environment/lock.py                requirements-lock.txt, resolved in a temporary environment
python workshop/environment/lock.py --grading      requirements-grading-lock.txt, the same way
"""

import argparse
import re
import subprocess
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-lock.txt"
GRADING_LOCK = ROOT / "requirements-grading-lock.txt"
HEADER = """\
# The whole environment of `make book` and `make test`, one exact version each. pyproject.toml holds the bounds.
# Refresh with `make lock PYTHON=python3.11`, then run `make test` and `make book`. What differs from system to
# system (the CUDA libraries of torch on Linux) is left to pip.
"""
GRADING_HEADER = """\
# The whole environment of `make assignments` and `make grade`, one exact version each: nbgrader and what it needs, with
# no torch, since students' code runs in .venv. pyproject.toml holds the bounds. Refresh with `make lock`, then run
# `make test`.
"""
HELD = ["torch==2.13.0"]  # the version under the measurements of the book; raise it together with them
LEFT_OUT = re.compile(r"^(nvidia|cuda)[\w-]*$|^(triton|executable[-_]transformer|pip|setuptools|wheel)$", re.IGNORECASE)


def lock_text(frozen: str, header: str = HEADER) -> str:
    """The lock for the output of `pip freeze`: no local versions (+cpu), no packages of one system only."""
    pins = []
    for line in frozen.splitlines():
        name, separator, version = line.partition("==")
        if separator and not LEFT_OUT.match(name):
            pins.append(f"{name}=={version.partition('+')[0]}")
    return header + "\n".join(sorted(pins, key=str.lower)) + "\n"


def grading_requirements() -> list[str]:
    """The extra [grading]; without the package itself, which would bring torch."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["grading"]


def resolved(requirements: list[str]) -> str:
    """The freeze of an environment made from pyproject.toml alone."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        command = [python, "-m", "pip", "install", "--quiet", *requirements]
        subprocess.run(command, check=True, cwd=ROOT)
        freeze = [python, "-m", "pip", "freeze", "--exclude-editable"]
        return subprocess.run(freeze, check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--grading", action="store_true", help="the environment of nbgrader")
    arguments = parser.parse_args()
    lock, header = (GRADING_LOCK, GRADING_HEADER) if arguments.grading else (LOCK, HEADER)
    wanted = grading_requirements() if arguments.grading else ["--editable", ".[book,test]", *HELD]
    lock.write_text(lock_text(resolved(wanted), header), "utf-8")
    print(f"{lock.name}: {sum('==' in line for line in lock.read_text('utf-8').splitlines())} packages")


if __name__ == "__main__":
    main()
