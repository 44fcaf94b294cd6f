"""What the sources say of the functions that a forward pass calls: ids, words, lines, and the axes of their arrays."""

import ast
import importlib
import textwrap
from functools import cache, cached_property
from pathlib import Path
from types import CodeType
from typing import Any, get_args, get_origin

from torch import Tensor

from workshop.lab.correspondence import ids_in

MODULES = ("attention", "multi_head_attention", "layers", "transformer", "embeddings", "positional_encoding", "masks")
PASSED_OVER = ("check_", "_check", "record", "watch", "<")  # checks of the input, a recorder, and what has no name
MASK = ("batch", "heads", "queries", "keys")


def ids_of(node: ast.FunctionDef | ast.ClassDef | None) -> list[str]:
    """The ids of the paper that a docstring names."""
    return ids_in(node and ast.get_docstring(node))


class Function:
    """A function of the library, and the class whose method it is or stands in."""

    def __init__(self, file: Path, name: str, node: ast.FunctionDef, owner: ast.ClassDef | None, place: Any):
        self.file, self.name, self.node, self.owner = file, name, node, owner
        self.annotations: dict[str, Any] = getattr(getattr(place, node.name, None), "__annotations__", {})

    @cached_property
    def head(self) -> tuple[int, int]:
        """The first and the last line of the signature."""
        return self.node.lineno, self.node.body[0].lineno - 1

    @cached_property
    def spans(self) -> dict[int, tuple[int, int]]:
        """Line → first and last line of the statement it belongs to; of a compound statement only its head."""
        found: dict[int, tuple[int, int]] = {}
        for statement in ast.walk(self.node):
            if isinstance(statement, ast.stmt) and statement is not self.node:
                body = getattr(statement, "body", None)
                last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
                found.update(dict.fromkeys(range(statement.lineno, last + 1), (statement.lineno, last)))
        return found

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the paper that its docstring and its class's name."""
        return list(dict.fromkeys(ids_of(self.node) + ids_of(self.owner)))

    def ids_met(self, caller: "Function | None") -> list[str]:
        """The ids that a call from there meets: those of the class only if the call comes from outside it."""
        return ids_of(self.node) if caller and caller.owner is self.owner else self.ids

    @cached_property
    def words(self) -> tuple[str, str]:
        """The first sentence of its docstring, and the formula there; `forward` has its class's formula."""
        own = (ast.get_docstring(self.node) or "").split("\n\n")
        of_class = (self.node.name == "forward" and self.owner and ast.get_docstring(self.owner)) or ""
        formulas = (part for part in own + of_class.split("\n\n") if part.startswith("    "))
        return " ".join(own[0].split()), textwrap.dedent(next(formulas, ""))

    def returns(self, line: int) -> list[str]:
        """What the return statement in this line calls the parts of its tuple; "return" if there is but one."""
        values = [n.value for n in ast.walk(self.node) if isinstance(n, ast.Return) and n.lineno == line]
        return [ast.unparse(part) for part in values[0].elts] if isinstance(values[0], ast.Tuple) else ["return"]

    def axes(self, name: str, tensor: Tensor, written: str = "") -> list[str]:
        """A name for each axis: `written`, or those of a mask, or from the annotation."""
        if not written and tensor.dim() == len(MASK) and not tensor.is_floating_point():
            return list(MASK)
        names = (written or dimensions(self.annotations.get(name))).replace("#", "").split()
        for i, one in enumerate(names):
            if one[0] in "*.":
                names[i : i + 1] = MASK[: tensor.dim() - len(names) + 1]
        if len(names) != tensor.dim():
            raise ValueError(
                f"{self.name}: {name} has shape {tuple(tensor.shape)} and the axes {names}; "
                "write their names into forward_terms.toml"
            )
        return names


def dimensions(annotation: Any) -> str:
    """What jaxtyping has written in an annotation, the first of a union; "" if there is none."""
    parts = () if get_origin(annotation) is tuple else get_args(annotation)
    return getattr(annotation, "dim_str", "") or next(filter(None, map(dimensions, parts)), "")


@cache
def functions() -> dict[tuple[str, str], Function]:
    """(file, name) → each function of the traced modules."""
    found: dict[tuple[str, str], Function] = {}

    def visit(body: list[ast.stmt], file: Path, prefix: str, owner: ast.ClassDef | None, place: Any) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                visit(node.body, file, f"{node.name}.", node, getattr(place, node.name))
            elif isinstance(node, ast.FunctionDef):
                found[str(file), prefix + node.name] = Function(file, prefix + node.name, node, owner, place)
                visit(node.body, file, f"{prefix}{node.name}.", owner, None)

    for module in (importlib.import_module(f"transformer_lib.{name}") for name in MODULES):
        file = Path(str(module.__file__))
        visit(ast.parse(file.read_text("utf-8")).body, file, "", None, module)
    return found


def function_of(code: CodeType) -> Function | None:
    """The function that this code belongs to; None for what is passed over."""
    name = code.co_qualname.replace("<locals>.", "")  # Python's own mark of a function within a function
    return None if code.co_name.startswith(PASSED_OVER) else functions().get((code.co_filename, name))
