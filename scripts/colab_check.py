"""Run the notebooks as Colab would: its versions, an empty working directory, the package installed by the notebook.

    python scripts/colab_check.py [notebooks/attention.ipynb …]

The notebooks stay unchanged. git alone is told, by its environment variables, to read the public address from this
checkout, so what is installed is the last commit of the branch that the notebooks name.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from address import configured

ROOT = Path(__file__).resolve().parents[1]
ENV = ROOT / "_build" / "colab"
# Colab in August 2026, but for Python (3.13 there) and torch (2.11 there).
VERSIONS = {
    "torch": "2.13.0",
    "numpy": "2.1.3",
    "pandas": "2.2.3",
    "matplotlib": "3.10.0",
    "altair": "5.5.0",
    "ipython": "7.34.0",
    "ipykernel": "6.17.1",
    "ipywidgets": "7.7.1",
    "traitlets": "5.7.1",
    "nbclient": "0.10.4",
    "spacy": "3.8.15",
}
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
print(len(notebook.cells), "cells")
"""
REPORT = """
import sys
from importlib.metadata import version
print("\\n".join(f"{name}=={version(name).split('+')[0]}" for name in sys.argv[1:]))
"""


def pip(*arguments: str, env: dict[str, str] | None = None, check: bool = True) -> None:
    command = [ENV / "bin" / "python", "-m", "pip", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=check, env=env)


def pins() -> list[str]:
    return [f"{name}=={number}" for name, number in VERSIONS.items()]


def make_environment() -> None:
    ready = ENV / "complete"
    if not ready.exists():
        venv.create(ENV, with_pip=True, clear=True)
        pip("install", "--quiet", *pins())
        ready.touch()


def environment() -> dict[str, str]:
    """Without this project's own settings; with the public address read from this checkout."""
    own = {"PYTHONPATH", "VIRTUAL_ENV", "JUPYTER_PREFER_ENV_PATH", "JUPYTER_PATH"}
    return {name: value for name, value in os.environ.items() if name not in own} | {
        "PATH": f"{ENV / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{ROOT}/.insteadOf",
        "GIT_CONFIG_VALUE_0": configured().repository,
        "GIT_TERMINAL_PROMPT": "0",
        "COLAB_RELEASE_TAG": "simulated",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }


def changed_versions() -> list[str]:
    """What the install cell changed of the versions that were there."""
    command = [ENV / "bin" / "python", "-c", REPORT, *VERSIONS]
    now = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return [f"{before} became {after}" for before, after in zip(pins(), now, strict=True) if before != after]


def run(notebook: Path) -> bool:
    """Run one notebook after removing the package; True if it ran and left the versions alone."""
    pip("uninstall", "--quiet", "--yes", "transformer-lib", check=False)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as empty:
        command = [ENV / "bin" / "python", "-c", EXECUTE, notebook]
        result = subprocess.run(command, cwd=empty, env=environment(), capture_output=True, text=True, check=False)
    changed = changed_versions()
    passed = result.returncode == 0 and not changed
    seconds = time.monotonic() - start
    print(f"{notebook.name}: {'passed' if passed else 'FAILED'}, {seconds:.0f} s, {result.stdout.strip()}", flush=True)
    for line in changed:
        print(f"  {line}")
    if result.returncode:
        print(result.stderr[-3000:])
    return passed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of notebooks/")
    chosen = parser.parse_args().notebooks or sorted((ROOT / "notebooks").glob("*.ipynb"))
    make_environment()
    results = [run(path.resolve()) for path in chosen]
    print(f"{sum(results)} of {len(results)} notebooks passed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
