"""The table paper → chapter → file → test, as Markdown for a page of the book and for its notebook."""

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from workshop.site.address import Address


class Row(Protocol):
    """One item of the paper and where it is explained, written and proved; see workshop/lab/correspondence.py."""

    id: str
    place: str
    statement: str
    chapter: str | None
    function: str | None
    file: str | None
    test: str | None


def load_rows(path: Path) -> list[Row]:
    """The rows that the module at `path` gives."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(f"{path}: the table of correspondence needs this module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.rows()


def _cell(text: str) -> str:
    """Text in a cell of a table: a bare | would end it."""
    return text.replace("|", r"\|").replace("\n", " ")


def _code(row: Row, address: Address, api: bool) -> str:
    if row.file is None:
        return "–"
    name = row.function.rpartition(".")[2] if row.function else Path(row.file).name
    if api and row.function and "." in row.function:
        return f"{{py:obj}}`{name} <transformer_lib.{row.function}>`"
    return f"[`{name}`]({address.blob(row.file)})"


def _test(row: Row, address: Address) -> str:
    if row.test is None:
        return "–"
    file, _, name = row.test.partition("::")
    words = name.removeprefix("test_").replace("_", " ")  # the name of a test is a sentence
    return f"[{words or Path(file).name}]({address.blob(file)})"


def _chapter(row: Row) -> str:
    return f"[{row.chapter.replace('_', ' ')}](#{row.id})" if row.chapter else "–"


def markdown(rows: Iterable[Row], address: Address, api: bool = False) -> str:
    """A Markdown table; a chapter is linked by the target of the item, a file and a test by their place on the web.

    With `api`, as on a page of the book, a function is linked to what the API says of it.
    """
    lines = ["| Paper | What it says | Chapter | Code | Test |", "|---|---|---|---|---|"]
    for row in rows:
        place, statement = _cell(row.place), _cell(row.statement)
        cells = (place, statement, _chapter(row), _code(row, address, api), _test(row, address))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
