"""Small diffs against the package, applied to a copy of it that is imported under a name of its own.

    with patched_package("rms_norm", "rotary") as library:
        model = library.Transformer(config)

Each diff lies in workshop/lab/since_then/. git finds a hunk by its lines, wherever they stand: its line numbers are for
readers alone. So diffs that touch different lines can be applied together. Where the package's own lines changed, edit
the diff's lines that begin with a blank or a minus, and their number in the hunk's head.
"""

import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).with_name("since_then")
PACKAGE, RUN = "transformer_lib", "transformer_run"
NUMBERS = itertools.count(1)


def apply(name: str, package: Path) -> None:
    """Apply the diff of this name to a copy of the package.

    Raises:
        ValueError: the package no longer has its lines.
    """
    command = ["git", "apply", str(FOLDER / f"{name}.diff")]
    alone = os.environ | {"GIT_CEILING_DIRECTORIES": str(package.parent.parent.resolve())}  # in no repository around it
    done = subprocess.run(command, cwd=package.parent, env=alone, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{name}.diff does not apply: put today's lines of the package into it; {done.stderr.strip()}")


def plant(folder: str | Path, file: str, right: str, wrong: str) -> None:
    """Write `wrong` where `right` stands in a file of the copies in this folder.

    Raises:
        ValueError: `right` does not occur exactly once.
    """
    path = Path(folder, file)
    source = path.read_text("utf-8")
    if (count := source.count(right)) != 1:
        raise ValueError(f"{file} holds these lines {count} times, not once:\n{right}")
    path.write_text(source.replace(right, wrong), "utf-8")


def copied(folder: str | Path, packages: Sequence[str] = (PACKAGE, RUN)) -> None:
    """Copies of the packages in this folder, without the translators that come with them."""
    for package in packages:
        ignored = shutil.ignore_patterns("__pycache__", "pretrained")
        shutil.copytree(ROOT / package, Path(folder, package), ignore=ignored)


@contextmanager
def patched_package(*names: str) -> Iterator[ModuleType]:
    """A copy of the package with these diffs applied in order, imported beside the package itself.

    The copy has its own classes: a model of the copy goes with the copy's `training`, `decoding` and so on.
    """
    alias = f"{PACKAGE}_{next(NUMBERS)}"
    with tempfile.TemporaryDirectory() as folder:
        copied(folder, [PACKAGE])
        package = Path(folder, PACKAGE)
        for name in names:
            apply(name, package)
        spec = importlib.util.spec_from_file_location(alias, package / "__init__.py")
        if spec is None or spec.loader is None:
            raise ImportError(f"{package} cannot be imported")
        module = sys.modules[alias] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            yield module
        finally:
            for key in [key for key in sys.modules if key.split(".")[0] == alias]:
                del sys.modules[key]
