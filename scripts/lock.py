"""Write requirements-lock.txt: what a fresh environment with the extras [book,test] holds today.

python scripts/lock.py                 resolve anew in a temporary environment
python scripts/lock.py --from PYTHON   record the environment of this interpreter as it is
"""

import argparse
import re
import subprocess
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-lock.txt"
HEADER = """\
# The whole environment of `make book` and `make test`, one exact version each. pyproject.toml holds the bounds.
# Refresh with `make lock PYTHON=python3.11`, then run `make test` and `make book`. What differs from system to
# system (the CUDA libraries of torch on Linux) is left to pip.
"""
HELD = ["torch==2.13.0"]  # the version under the measurements of the book; raise it together with them
LEFT_OUT = re.compile(r"^(nvidia|cuda)[\w-]*$|^(triton|transformer[-_]lib|pip|setuptools|wheel)$", re.IGNORECASE)


def lock_text(frozen: str) -> str:
    """The lock for the output of `pip freeze`: no local versions (+cpu), no packages of one system only."""
    pins = []
    for line in frozen.splitlines():
        name, separator, version = line.partition("==")
        if separator and not LEFT_OUT.match(name):
            pins.append(f"{name}=={version.partition('+')[0]}")
    return HEADER + "\n".join(sorted(pins, key=str.lower)) + "\n"


def freeze(python: Path) -> str:
    command = [python, "-m", "pip", "freeze", "--exclude-editable"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def resolved() -> str:
    """The freeze of an environment made from pyproject.toml alone."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        command = [python, "-m", "pip", "install", "--quiet", "--editable", ".[book,test]", *HELD]
        subprocess.run(command, check=True, cwd=ROOT)
        return freeze(python)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", dest="python", type=Path, help="an interpreter whose environment to record")
    python = parser.parse_args().python
    LOCK.write_text(lock_text(freeze(python) if python else resolved()), "utf-8")
    print(f"{LOCK.name}: {sum('==' in line for line in LOCK.read_text('utf-8').splitlines())} packages")


if __name__ == "__main__":
    main()
