"""Run the notebooks as Colab would: in an empty working directory, the package installed by the first of them.

    make colab [ARGS=notebooks/attention.ipynb]       in a new environment with the versions of Colab, the lower bounds
    python -m workshop.site.colab_check               in the environment of this interpreter, such as Colab's image

The notebooks stay unchanged. git alone is told, by its environment variables, to read the public address from this
checkout, so what is installed is the last commit of the branch that the notebooks name.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from importlib.metadata import distributions
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbformat.notebooknode import NotebookNode

from workshop.site.address import configured

ROOT = Path(__file__).resolve().parents[2]
COLAB = set(re.findall(r"^[\w-]+", Path(__file__).with_name("colab.txt").read_text("utf-8"), re.MULTILINE))


def versions() -> dict[str, str]:
    """The versions of Colab's packages that are there now."""
    return {found.name: found.version for found in distributions() if found.name.lower() in COLAB}


def variables() -> dict[str, str]:
    """Without this project's own settings; with the public address read from this checkout."""
    own = {"PYTHONPATH", "VIRTUAL_ENV", "JUPYTER_PREFER_ENV_PATH", "JUPYTER_PATH"}
    return {name: value for name, value in os.environ.items() if name not in own} | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{ROOT}/.insteadOf",
        "GIT_CONFIG_VALUE_0": configured().repository,
        "GIT_TERMINAL_PROMPT": "0",
        "COLAB_RELEASE_TAG": "simulated",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }


def executed(notebook: Path) -> NotebookNode:
    """The notebook after a run in an empty folder."""
    with tempfile.TemporaryDirectory() as empty:
        client = NotebookClient(nbformat.read(notebook, 4), timeout=600, kernel_name="python3")
        return client.execute(cwd=empty, env=variables())


def run(notebook: Path) -> bool:
    """Run one notebook; True if it ran and left the versions alone."""
    before, start, faults = versions(), time.monotonic(), []
    try:
        executed(notebook)
    except (CellControlSignal, DeadKernelError) as error:
        faults.append(str(error)[-3000:])
    now = versions()
    faults += [f"{name} {was} became {now.get(name)}" for name, was in before.items() if was != now.get(name)]
    verdict = f"{notebook.name}: {'FAILED' if faults else 'passed'}, {time.monotonic() - start:.0f} s"
    print(verdict, *faults, sep="\n  ", flush=True)
    return not faults


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of notebooks/")
    chosen = parser.parse_args().notebooks or sorted((ROOT / "notebooks").glob("*.ipynb"))
    print(versions(), flush=True)
    results = [run(path) for path in chosen]
    print(f"{sum(results)} of {len(results)} notebooks passed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
