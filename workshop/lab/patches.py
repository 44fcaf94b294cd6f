"""Small diffs against the package, applied to a copy of it that is imported under a name of its own.

    with patched_package("rms_norm", "rotary") as library:
        model = library.Transformer(config)

Each diff lies in workshop/lab/since_then/. A hunk is found by its lines, wherever they stand: its line numbers are for
readers alone. So diffs that touch different lines can be applied together.

    python -m workshop.lab.patches    write every diff anew, with the line numbers of today

Where the package's own lines changed, edit the diff's lines that begin with a blank or a minus, then run this.
"""

import difflib
import importlib.util
import itertools
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).with_name("since_then")
PACKAGE = "transformer_lib"
NUMBERS = itertools.count(1)


class Hunk(NamedTuple):
    """Lines of one file of the package, and what the diff makes of them."""

    file: str  # below transformer_lib
    before: str
    after: str


def hunks(diff: str) -> list[Hunk]:
    """The hunks of a unified diff.

    Raises:
        ValueError: a line that is no line of a unified diff, or a file outside the package.
    """
    found: list[Hunk] = []
    file = ""
    for line in diff.splitlines(keepends=True):
        if match := re.match(rf"--- a/{PACKAGE}/(\S+)\n", line):
            file = match[1]
        elif line.startswith("@@ ") and file:
            found.append(Hunk(file, "", ""))
        elif line[0] in " -+" and found and not line.startswith("+++ "):
            before, after = ("" if line[0] == sign else line[1:] for sign in "+-")
            found[-1] = Hunk(file, found[-1].before + before, found[-1].after + after)
        elif line != f"+++ b/{PACKAGE}/{file}\n":
            raise ValueError(f"{line!r} is no line of a unified diff against {PACKAGE}/")
    return found


def apply(name: str, package: Path) -> None:
    """Apply the diff of this name to a copy of the package.

    Raises:
        ValueError: a hunk whose lines do not occur exactly once.
    """
    for hunk in hunks((FOLDER / f"{name}.diff").read_text("utf-8")):
        try:
            plant(package, *hunk)
        except ValueError as error:
            remedy = "put today's lines into the diff, then run `python -m workshop.lab.patches`"
            raise ValueError(f"{name}.diff: {remedy}; {error}") from None


def plant(package: Path, file: str, right: str, wrong: str) -> None:
    """Write `wrong` where `right` stands in a file of a copy of the package.

    Raises:
        ValueError: `right` does not occur exactly once.
    """
    path = package / file
    source = path.read_text("utf-8")
    if (count := source.count(right)) != 1:
        raise ValueError(f"{PACKAGE}/{file} holds these lines {count} times, not once:\n{right}")
    path.write_text(source.replace(right, wrong), "utf-8")


def copied(folder: str | Path) -> Path:
    """A copy of the package in this folder, without what models of its own weights need."""
    package = Path(folder, PACKAGE)
    shutil.copytree(ROOT / PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "pretrained"))
    return package


def refreshed(name: str) -> str:
    """The diff of this name against the package as it stands, one line of context around each change."""
    diff = (FOLDER / f"{name}.diff").read_text("utf-8")
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        package = copied(folder)
        apply(name, package)
        for file in dict.fromkeys(hunk.file for hunk in hunks(diff)):
            old, new = ((p / file).read_text("utf-8").splitlines(True) for p in (ROOT / PACKAGE, package))
            lines += difflib.unified_diff(old, new, f"a/{PACKAGE}/{file}", f"b/{PACKAGE}/{file}", n=1)
    return "".join(lines)


@contextmanager
def patched_package(*names: str) -> Iterator[ModuleType]:
    """A copy of the package with these diffs applied in order, imported beside the package itself.

    The copy has its own classes: a model of the copy goes with the copy's `training`, `decoding` and so on.
    """
    alias = f"{PACKAGE}_{next(NUMBERS)}"
    with tempfile.TemporaryDirectory() as folder:
        package = copied(folder)
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


def main() -> None:
    for path in sorted(FOLDER.glob("*.diff")):
        path.write_text(refreshed(path.stem), "utf-8")


if __name__ == "__main__":
    main()
