"""Small faults for any line of the package: the sites where one can be planted, and a seeded sample of them.

mutmut 3 draws no sample and leaves code outside of functions alone; cosmic-ray edits the working tree and starts one
command, with its import of torch, for each fault. So the faults are made here, by the syntax tree.
"""

import ast
import copy
import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

LEFT_OUT = {"plots.py", "shapes.py", "__init__.py", "__main__.py"}  # what judges, draws or only names
PAIRS = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)]
PAIRS += [(ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.FloorDiv, ast.Mod), (ast.BitAnd, ast.BitOr), (ast.And, ast.Or)]
SWAPPED = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])} | {ast.Pow: ast.Mult}
TAKEN_OFF = {"detach", "contiguous", "clone", "float", "double", "strip", "splitlines", "eval", "train", "copy", "cpu"}
SAID = {"help", "metavar"}  # words for people: what a program says to them is not what it computes
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


def files_of(*packages: Path) -> list[Path]:
    """The files of the packages that faults are planted in."""
    paths = sorted(path for package in packages for path in package.rglob("*.py"))
    return [path for path in paths if path.name not in LEFT_OUT and path.parent.name != "reference"]


class Mutant(NamedTuple):
    """One fault: a piece of a file, and what stands there instead."""

    file: str  # such as transformer_lib/masks.py
    line: int
    before: str  # the lines that change, with single spaces
    after: str
    start: int  # in bytes of the file
    end: int
    text: str

    def applied(self, source: str) -> str:
        """The file with the fault."""
        code = source.encode()
        return (code[: self.start] + self.text.encode() + code[self.end :]).decode()


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _of_expressions(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            yield node, f"({ast.unparse(_changed(node, ops=[SWAPPED[type(op)]()]))})"
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPPED:
            yield node, f"({ast.unparse(_changed(node, op=SWAPPED[type(op)]()))})"
        case ast.UnaryOp(operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() | float() as value):
            yield node, str(value + 1 if isinstance(value, int) else value * 2 or 1.0)
        case ast.Name(id=name) if name in NAMES:
            yield node, NAMES[name]
        case ast.Call(func=ast.Attribute(value=value, attr=attribute)) if attribute in TAKEN_OFF:
            yield node, ast.unparse(value)
    if isinstance(node, ast.Call):
        for dropped in (keyword for keyword in node.keywords if keyword.arg and keyword.arg not in SAID):
            yield node, ast.unparse(_changed(node, keywords=[kept for kept in node.keywords if kept is not dropped]))


def _of_statements(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.comprehension(ifs=[test]):
            yield test, f"(not ({ast.unparse(test)}))"
        case ast.AugAssign() | ast.Raise() | ast.Break() | ast.Continue() | ast.Assign(targets=[ast.Subscript()]):
            yield node, "pass"
        case ast.Expr(value=ast.Call() as call) if "super()" not in ast.unparse(call):
            yield node, "pass"


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs: no annotation, and nothing inside an f-string, which is a message."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns"} or isinstance(node, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def mutants(file: str, source: str) -> list[Mutant]:
    """Every fault that can be planted in a file, each of which still compiles."""
    code = source.encode()
    lines = code.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    found = []
    for node in _walk(ast.parse(source)):
        for piece, text in [*_of_expressions(node), *_of_statements(node)]:
            first, last = piece.lineno, piece.end_lineno
            start, end = starts[first - 1] + piece.col_offset, starts[last - 1] + piece.end_col_offset
            before = code[starts[first - 1] : starts[last]]
            after = code[starts[first - 1] : start] + text.encode() + code[end : starts[last]]
            was, now = (" ".join(part.decode().split()) for part in (before, after))
            found.append(Mutant(file, first, was, now, start, end, text))
    return found


def sample(files: Sequence[Path], root: Path, number: int, seed: int) -> list[Mutant]:
    """About so many mutants, spread over these files below the root by what can be planted there, two of each at least.

    They are shuffled: whoever stops after some of them has a sample too.
    """
    sites = {path: mutants(path.relative_to(root).as_posix(), path.read_text("utf-8")) for path in files}
    total, draw = sum(map(len, sites.values())), random.Random(seed)
    drawn = []
    for found in sites.values():
        share = max(2, round(number * len(found) / total))
        drawn += draw.sample(found, min(share, len(found)))
    draw.shuffle(drawn)
    return drawn
