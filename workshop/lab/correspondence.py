"""Read the map paper → chapter → function → test out of the sources, without importing or running them."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from workshop.lab.paper_ids import PAPER_IDS

ROOT = Path(__file__).resolve().parents[2]
SOURCE_LINE = re.compile(r"Source: (.+)")
ID = re.compile(r"\[([a-z0-9-]+)\]")
TARGET = re.compile(r"^\(([a-z0-9-]+)\)=$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One item of the paper and where the project deals with it; None where it does not yet."""

    id: str
    place: str
    statement: str
    chapter: str | None  # page name, such as "attention"
    function: str | None  # such as "attention.scaled_dot_product_attention"
    file: str | None
    test: str | None  # such as "tests/paper/test_attention.py::test_equation_1_equals_the_loops"


def ids_in(text: str | None) -> list[str]:
    """The ids that the `Source:` lines of a docstring or comment name."""
    return [found for line in SOURCE_LINE.findall(text or "") for found in ID.findall(line)]


@cache
def functions() -> dict[str, list[tuple[str, str]]]:
    """Id → (qualified name, file) of every definition whose docstring has it in a `Source:` line."""
    named: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((ROOT / "transformer_lib").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "transformer_lib").with_suffix("").parts)
        text = path.read_text("utf-8")
        definitions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.ClassDef))
        found = [(f"{module}.{node.name}", ast.get_docstring(node)) for node in definitions]
        found += [(module, line) for line in re.findall(r"^# Source: .+", text, re.MULTILINE)]  # above a table of data
        for name, words in found:
            for paper_id in ids_in(words):
                named.setdefault(paper_id, []).append((name, path.relative_to(ROOT).as_posix()))
    return named


@cache
def tests() -> dict[str, list[str]]:
    """Id → tests that carry it in `@pytest.mark.paper`."""
    proofs: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        functions = (n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.FunctionDef))
        for node in functions:
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.paper":
                    for argument in mark.args:
                        name = f"{path.relative_to(ROOT).as_posix()}::{node.name}"
                        proofs.setdefault(ast.literal_eval(argument), []).append(name)
    return proofs


@cache
def chapters() -> dict[str, list[str]]:
    """Id → pages with the target `(id)=`; targets that are not ids of the paper are left out."""
    pages: dict[str, list[str]] = {}
    for path in sorted((ROOT / "book").glob("*.md")):
        for target in TARGET.findall(path.read_text("utf-8")):
            if target in PAPER_IDS:
                pages.setdefault(target, []).append(path.stem)
    return pages


def rows() -> list[Row]:
    """One row for each id: the first function found, a test from the file of its name, and the chapter."""
    by_function, by_test, by_chapter = functions(), tests(), chapters()
    result = []
    for paper_id, (place, statement) in PAPER_IDS.items():
        function, file = by_function.get(paper_id, [(None, None)])[0]
        tests_of_file = [name for name in by_test.get(paper_id, []) if file and f"test_{Path(file).stem}.py" in name]
        test = (tests_of_file or by_test.get(paper_id, [None]))[0]
        chapter = by_chapter.get(paper_id, [None])[0]
        result.append(Row(paper_id, place, statement, chapter, function, file, test))
    return result
