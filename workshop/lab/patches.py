"""Changes to a copy of the package: lines replaced by others, one place or a diff of several.

    with patched_package("rms_norm", "rotary") as library:
        model = library.Transformer(config)

The diffs lie in workshop/lab/since_then/. A hunk is found by its lines, wherever they stand: its line numbers are for
readers alone. So diffs that touch different lines can be applied together.
"""

import importlib.util
import itertools
import re
import shutil
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


def plant(folder: str | Path, file: str, right: str, wrong: str) -> None:
    """Write `wrong` where `right` stands in a file of the copies in this folder.

    Raises:
        ValueError: `right` does not occur exactly once.
    """
    path = Path(folder, file)
    source = path.read_text("utf-8")
    if (count := source.count(right)) != 1:
        cure = "put today's lines into the diff or the defect"
        raise ValueError(f"{file} holds these lines {count} times, not once: {cure}\n{right}")
    path.write_text(source.replace(right, wrong), "utf-8")


def apply(name: str, folder: str | Path) -> None:
    """Plant each hunk of the diff of this name in the copies in this folder. Raises ValueError as `plant` does."""
    text = (FOLDER / f"{name}.diff").read_text("utf-8")
    for file, hunks in re.findall(r"^\+\+\+ b/(.+)\n((?:(?!--- a/).*\n)+)", text, re.MULTILINE):
        for hunk in re.split(r"^@@.*\n", hunks, flags=re.MULTILINE)[1:]:
            lines = hunk.splitlines(keepends=True)
            right, wrong = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
            plant(folder, file, right, wrong)


def copied(
    folder: str | Path, packages: Sequence[str] = (PACKAGE, RUN), without: Sequence[str] = ("__pycache__", "pretrained")
) -> None:
    """Copies of the packages in this folder, without the translators that come with them."""
    for package in packages:
        shutil.copytree(ROOT / package, Path(folder, package), ignore=shutil.ignore_patterns(*without))


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
            apply(name, folder)
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
