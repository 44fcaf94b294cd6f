"""Run the notebooks as Colab would: its versions, an empty working directory, the package installed by the notebook.

    python -m workshop.site.colab_check [notebooks/attention.ipynb …]   the versions of Colab, the lower bounds
    ... --bounds newest                                                 the newest that there are
    ... --here                                                          in this very environment, such as Colab's image

The notebooks stay unchanged. git alone is told, by its environment variables, to read the public address from this
checkout, so what is installed is the last commit of the branch that the notebooks name.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import distributions
from pathlib import Path

from workshop.site.address import configured

ROOT = Path(__file__).resolve().parents[2]
INSTALL_SECONDS = 60  # how long the first code cell of a notebook, which installs the package, may take
# Colab in August 2026, but for Python (3.13 there) and torch (2.11 there).
COLAB = {
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
import json, sys, nbclient, nbformat
from datetime import datetime
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
code = [cell for cell in notebook.cells if cell.cell_type == "code"]
times = [cell.metadata.execution for cell in code[:1]]
started, ended = (
    [datetime.fromisoformat(time[key].replace("Z", "+00:00")) for time in times]
    for key in ("iopub.status.busy", "iopub.status.idle")
)
seconds = sum((end - start).total_seconds() for start, end in zip(started, ended))
print(json.dumps({"cells": len(notebook.cells), "install_seconds": seconds}))
"""


def fresh_environment(bounds: str) -> Path:
    """The interpreter of a virtual environment with the packages that a host of notebooks brings."""
    folder = ROOT / "_build" / "colab" / bounds
    interpreter = folder / "bin" / "python"
    complete = folder / "complete"
    wanted = [f"{name}=={number}" for name, number in COLAB.items()]
    if bounds == "newest":
        # The one version of torch that comes without gigabytes of GPU libraries on a machine without a GPU.
        wanted = [f"torch=={COLAB['torch']}" if name == "torch" else name for name in COLAB]
    known = complete.exists() and complete.read_text("utf-8").split() == wanted
    if not known:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    if not known or bounds == "newest":  # newer versions may have appeared
        Environment.pip_of(interpreter, "install", "--quiet", "--upgrade", *wanted)
        complete.write_text("\n".join(wanted), "utf-8")
    return interpreter


class Environment:
    """The interpreter in which the notebooks run, and the versions that it started with."""

    def __init__(self, python: Path):
        self.python = python
        self.versions = self.report()

    @staticmethod
    def pip_of(python: Path, *arguments: str, check: bool = True) -> None:
        subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *arguments], check=check)

    def report(self) -> dict[str, str]:
        """The versions of Colab's packages that are there now."""
        command = [str(self.python), "-m", "pip", "--disable-pip-version-check", "list", "--format=json"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return {one["name"].lower(): one["version"] for one in found if one["name"].lower() in COLAB}

    def variables(self) -> dict[str, str]:
        """Without this project's own settings; with the public address read from this checkout."""
        own = {"PYTHONPATH", "VIRTUAL_ENV", "JUPYTER_PREFER_ENV_PATH", "JUPYTER_PATH"}
        return {name: value for name, value in os.environ.items() if name not in own} | {
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.file://{ROOT}/.insteadOf",
            "GIT_CONFIG_VALUE_0": configured().repository,
            "GIT_TERMINAL_PROMPT": "0",
            "COLAB_RELEASE_TAG": "simulated",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        }


def run(notebook: Path, environment: Environment) -> bool:
    """Run one notebook after removing the package; True if it ran, installed quickly and left the versions alone."""
    environment.pip_of(environment.python, "uninstall", "--quiet", "--yes", "executable-transformer", check=False)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as empty:
        command = [environment.python, "-c", EXECUTE, notebook]
        result = subprocess.run(
            command, cwd=empty, env=environment.variables(), capture_output=True, text=True, check=False
        )
    seconds = time.monotonic() - start
    now = environment.report()
    faults = [
        f"{name} {was} became {now.get(name)}" for name, was in environment.versions.items() if was != now.get(name)
    ]
    told = json.loads(result.stdout.splitlines()[-1]) if result.returncode == 0 else {}
    if told.get("install_seconds", 0) > INSTALL_SECONDS:
        faults.append(f"the installation took {told['install_seconds']:.0f} s; {INSTALL_SECONDS} s are the limit")
    passed = result.returncode == 0 and not faults
    words = f"{told['cells']} cells, installed in {told['install_seconds']:.0f} s" if told else result.stderr[-3000:]
    print(f"{notebook.name}: {'passed' if passed else 'FAILED'}, {seconds:.0f} s, {words}", flush=True)
    for line in faults:
        print(f"  {line}")
    return passed


def is_editable() -> bool:
    """Whether this environment holds the package as a link to a checkout, as `make env` installs it."""
    origins = [found.read_text("direct_url.json") for found in distributions(name="executable-transformer")]
    return any(json.loads(origin).get("dir_info", {}).get("editable", False) for origin in origins if origin)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of notebooks/")
    parser.add_argument("--bounds", choices=["colab", "newest"], default="colab", help="which versions to meet")
    parser.add_argument("--here", action="store_true", help="run in the environment of this interpreter")
    arguments = parser.parse_args()
    chosen = arguments.notebooks or sorted((ROOT / "notebooks").glob("*.ipynb"))
    if arguments.here and is_editable():
        parser.error("--here would take the editable package out of this environment; leave it out, or use another one")
    here = Path(sys.executable)
    environment = Environment(here if arguments.here else fresh_environment(arguments.bounds))
    print(f"{'here' if arguments.here else arguments.bounds}: {environment.versions}", flush=True)
    results = [run(path.resolve(), environment) for path in chosen]
    print(f"{sum(results)} of {len(results)} notebooks passed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
