"""The table of seeded defects as Markdown: the line, what a model trained with it does, the test that catches it."""

import importlib.util
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from workshop.site.address import Address


class Defect(Protocol):
    """One fault of one line; see workshop/lab/defects.py."""

    name: str
    file: str
    right: str
    wrong: str
    caught_by: str
    runs: bool


def load_defects(path: Path) -> list[Defect]:
    """The list that the module at `path` holds."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(f"{path}: the table of defects needs this module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.DEFECTS


def _code(line: str) -> str:
    """A line of code in a cell of a table: on one line, and a bare | would end the cell."""
    text = " ".join(line.split()).replace("|", r"\|")
    return f"`{text}`"


def _shares(runs: Iterable[Mapping[str, Any]], key: str) -> str:
    if any("error" in run for run in runs):
        return "error"
    return ", ".join(f"{100 * run[key]:.0f}" for run in runs)


def markdown(defects: Iterable[Defect], recorded: Mapping[str, Any], address: Address) -> str:
    """A Markdown table; per cent of unseen numbers translated to the letter, one figure for each seed."""
    lines = [
        "| What is wrong | Right → wrong | Half way, % | End, % | End, beam 4, % | Caught by |",
        "|---|---|---|---|---|---|",
    ]
    for defect in defects:
        file, _, test = defect.caught_by.partition("::")
        words = test.removeprefix("test_").replace("_", " ")  # the name of a test is a sentence
        runs = recorded["defects"].get(defect.name, {}).get("runs", [])
        shares = [_shares(runs, key) for key in ("halfway", "greedy", "beam_4")] if runs else ["–"] * 3
        cells = [
            f"{defect.name} ([{defect.file}]({address.blob('transformer_lib/' + defect.file)}))",
            f"{_code(defect.right)} → {_code(defect.wrong)}",
            *shares,
            f"[{words}]({address.blob('tests/' + file)})",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def table(root: Path, address: Address) -> str:
    """The table from the list of defects and the recorded runs below `root`."""
    recorded = json.loads((root / "experiments" / "results" / "seeded_defects.json").read_text("utf-8"))
    return markdown(load_defects(root / "workshop" / "lab" / "defects.py"), recorded, address)
