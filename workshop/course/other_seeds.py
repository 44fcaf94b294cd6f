"""Run a page with its seeds moved: what it asserts must not hang on the numbers that its own seeds happen to draw.

Moved are the seeds that a reader sees: a whole number given to `manual_seed`, `default_rng` or `Random`, or named
`seed`, and those of a loop over `seed` that hands them to a call. A loop that looks recorded runs up stays.
"""

import ast
import contextlib
import io
import os
from pathlib import Path
from typing import Any, cast

from workshop.course.exercise_context import plain_python
from workshop.site.book_index import read_page

DRAWS = {"manual_seed", "default_rng", "Random"}
NOTED = "__tell_the_failed_assertion__"


def _is_number(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _is_handed_on(body: ast.AST) -> bool:
    """Whether a call in the body is given `seed` itself."""
    given = [
        argument
        for call in ast.walk(body)
        if isinstance(call, ast.Call)
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
    ]
    return any(isinstance(argument, ast.Name) and argument.id == "seed" for argument in given)


class Moved(ast.NodeTransformer):
    """The code of a cell with its seeds moved; a failed assertion is noted, and the cell goes on."""

    def __init__(self, by: int):
        self.by = by

    def _number(self, node: ast.expr | None) -> None:
        if isinstance(node, ast.Constant) and _is_number(node):
            node.value = int(str(node.value)) + self.by

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        for argument in node.args[:1] if name in DRAWS else []:
            self._number(argument)
        for keyword in node.keywords:
            if keyword.arg == "seed":
                self._number(keyword.value)
        return self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        positional = [*node.posonlyargs, *node.args]
        defaults = zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True)
        for argument, default in (*defaults, *zip(node.kwonlyargs, node.kw_defaults, strict=True)):
            if argument.arg == "seed":
                self._number(default)
        return self.generic_visit(node)

    def _loop(self, loop: ast.For | ast.comprehension, *body: ast.AST) -> None:
        if getattr(loop.target, "id", "") == "seed" and any(map(_is_handed_on, body)):
            moved = ast.parse(f"[each + {self.by} for each in {ast.unparse(loop.iter)}]", mode="eval").body
            loop.iter = ast.copy_location(moved, loop.iter)

    def visit_For(self, node: ast.For) -> ast.AST:
        self._loop(node, *node.body)
        return self.generic_visit(node)

    def _comprehension(self, node: Any) -> ast.AST:
        for loop in node.generators:
            self._loop(loop, *([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]))
        return self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        noted = f"try: ...\nexcept AssertionError: {NOTED}({node.lineno}, {ast.unparse(node.test)!r})"
        attempt = cast(ast.Try, ast.parse(noted).body[0])
        attempt.body = [node]
        return ast.copy_location(attempt, node)


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
        read = ast.increment_lineno(ast.parse(plain_python(cell.text)), cell.body_line - 1)
        tree = ast.fix_missing_locations(Moved(by).visit(read))
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(tree, str(path), "exec"), names)  # the book's own code
        except Exception as error:
            tell(cell.body_line, f"the cell ends with {type(error).__name__}: {error}")
    return list(found)
