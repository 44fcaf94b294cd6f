"""Two tables as Markdown, for a page and for its notebook: the items of the paper, and the seeded defects."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workshop.lab import correspondence
from workshop.lab.correspondence import Row
from workshop.lab.defects import DEFECTS
from workshop.site.address import Address
from workshop.site.teaching_plan import one_line

RECORDED = "experiments/results/seeded_defects.json"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    lines = [f"| {' | '.join(cells)} |" for cells in (names, *rows)]
    return "\n".join([lines[0], "|---" * len(names) + "|", *lines[1:]])


def _one_line(text: str) -> str:
    """Text in a cell: on one line; a bare | would end the cell."""
    return one_line(text).replace("|", r"\|")


def _test(name: str | None, address: Address) -> str:
    """A link to the file of a test, such as tests/paper/test_masks.py::test_it_holds; the name is a sentence."""
    if name is None:
        return "–"
    file, _, sentence = name.partition("::")
    return f"[{sentence.removeprefix('test_').replace('_', ' ')}]({address.blob(file)})"


def paper_table(address: Address, api: bool = False) -> str:
    """Paper → chapter → code → test; a chapter is linked by the target of the item.

    With `api`, as on a page of the book, a function is linked to what the API says of it.
    """

    def chapter(row: Row) -> str:
        words = (row.chapter or "–").replace("_", " ")
        if row.chapter and api:
            return f"{{ref}}`{words} <{row.id}>`"  # a chapter can have the name of an item
        return f"[{words}](#{row.id})" if row.chapter else words

    def code(row: Row) -> str:
        if row.file is None:
            return "–"
        name = (row.function or "").rpartition(".")[2]
        if api and "." in (row.function or ""):
            return f"{{py:obj}}`{name} <transformer_lib.{row.function}>`"
        return f"[`{name}`]({address.blob(row.file)})"

    rows = [
        [*map(_one_line, (row.place, row.statement)), chapter(row), code(row), _test(row.test, address)]
        for row in correspondence.rows()
    ]
    return _table(["Paper", "What it says", "Chapter", "Code", "Test"], rows)


def _per_cent(runs: list[dict[str, Any]], key: str) -> str:
    """The share of one measure, a figure for each seed."""
    if any("error" in run for run in runs):
        return "error"
    return ", ".join(f"{100 * run[key]:.0f}" for run in runs) or "–"


def defect_table(root: Path, address: Address) -> str:
    """What is wrong, the share of unseen numbers that a model trained with it translates right, the test."""
    recorded = json.loads((root / RECORDED).read_text("utf-8"))["defects"]
    rows = []
    for defect in DEFECTS:
        runs = recorded.get(defect.name, {}).get("runs", [])
        place = f"[{Path(defect.file).name}]({address.blob(defect.file)})"
        wrong = f"`{_one_line(defect.wrong)}`" if defect.wrong.strip() else "nothing"
        change = f"`{_one_line(defect.right)}` → {wrong}"
        shares = [_per_cent(runs, key) for key in ("halfway", "greedy", "beam_4")]
        rows.append([f"{defect.name} ({place})", change, *shares, _test(f"tests/{defect.caught_by}", address)])
    return _table(["What is wrong", "Right → wrong", "Half way, %", "End, %", "End, beam 4, %", "Caught by"], rows)
