"""Run a page with its seeds moved: what it asserts must not hang on the numbers that its own seeds happen to draw.

Moved are the seeds that a reader sees: a whole number given to `manual_seed`, `default_rng` or `Random`, or named
`seed`, those of a loop over `seed` that hands them to a call, and that of a `TrainingConfig` which names none. A loop
that looks recorded runs up stays.
"""

import ast
import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any, cast

from transformer_lib import TrainingConfig
from workshop.course.exercise_context import plain_python
from workshop.site.book_index import read_page

SEED = re.compile(r"(\b(?:(?:manual_seed|default_rng|Random)\(|seed(?:: int)? ?= ?))(\d+)\b(?!\.)")
NOTED = "__tell_the_failed_assertion__"


def _is_handed_on(loop: ast.AST) -> bool:
    """Whether a call in the loop is given `seed` itself."""
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    given = (part for call in calls for part in (*call.args, *(keyword.value for keyword in call.keywords)))
    return any(isinstance(part, ast.Name) and part.id == "seed" for part in given)


class _Moved(ast.NodeTransformer):
    """Moves the seeds of loops; a failed assertion is noted, and the cell goes on."""

    def __init__(self, by: int):
        self.by = by

    def visit(self, node: ast.AST) -> ast.AST:
        for loop in [node] if isinstance(node, ast.For) else getattr(node, "generators", []):
            if getattr(loop.target, "id", "") == "seed" and _is_handed_on(node):
                moved = ast.parse(f"[each + {self.by} for each in {ast.unparse(loop.iter)}]", mode="eval").body
                loop.iter = ast.copy_location(moved, loop.iter)
        return super().visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) == "TrainingConfig" and "seed" not in [keyword.arg for keyword in node.keywords]:
            node.keywords.append(ast.keyword("seed", ast.Constant(TrainingConfig.seed + self.by)))
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        noted = f"try: ...\nexcept AssertionError: {NOTED}({node.lineno}, {ast.unparse(node.test)!r})"
        attempt = cast(ast.Try, ast.parse(noted).body[0])
        attempt.body = [node]
        return ast.copy_location(attempt, node)


def moved(source: str, by: int, above: int = 0) -> Any:
    """The code of a cell, below so many lines of its page, with its seeds moved."""
    numbers = SEED.sub(lambda found: f"{found[1]}{int(found[2]) + by}", source)
    return ast.fix_missing_locations(_Moved(by).visit(ast.increment_lineno(ast.parse(numbers), above)))


def failures(path: Path, by: int) -> list[str]:
    """The assertions of a page, with line and code, that fail with every seed moved `by` so much.

    The cells run in one namespace from the folder of the page, as in a build. An error of another kind ends its cell
    and is told, too.
    """
    found: dict[str, None] = {}

    def tell(line: int, words: str) -> None:
        found[f"{path.name}:{line}: {words}"] = None

    os.chdir(path.parent)
    names: dict[str, Any] = {"__name__": "__main__", NOTED: tell, "display": lambda *_: None}
    for cell in (block for block in read_page(path).blocks if block.name == "code-cell"):
        tree = moved(plain_python(cell.text), by, cell.body_line - 1)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(tree, str(path), "exec"), names)  # the book's own code
        except Exception as error:
            tell(cell.body_line, f"the cell ends with {type(error).__name__}: {error}")
    return list(found)
