"""The cells of a chapter that an exercise stands on: those that define the names it reads, and no others.

A chapter may train a model for a minute before its exercises. An assignment takes over what the exercises use:
from each name that is read, back to the nearest cell before it that binds the name, and so on.
"""

import ast
import builtins
import re
import symtable

from workshop.course.exercises import Exercise, tags
from workshop.site.book_index import Page
from workshop.site.make_notebooks import BOOK_ONLY, is_run, with_records
from workshop.site.plain_markdown import Plain

MAGIC = re.compile(r"^(\s*)[%!](?!=).*$", re.MULTILINE)  # but not a comparison that begins a line
OF_AN_EXERCISE = {"answer", "check", "solution", "hidden-check", "wrong-answer", "numbers"}


def plain_python(source: str) -> str:
    """The source with the lines that only IPython understands emptied."""
    return MAGIC.sub(r"\1pass", source)


def _names_inside(table: symtable.SymbolTable) -> set[str]:
    """The global names that functions and comprehensions of a table read."""
    names = set()
    for child in table.get_children():
        names |= {symbol.get_name() for symbol in child.get_symbols() if symbol.is_global() and symbol.is_referenced()}
        names |= _names_inside(child)
    return names


def bound(source: str) -> set[str]:
    """The names that a cell binds for the cells after it."""
    top = symtable.symtable(plain_python(source), "cell", "exec")
    return {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}


def _read_by_simple(node: ast.AST) -> tuple[set[str], set[str]]:
    """The names that a statement or expression without a body reads, and those that it binds."""
    text = ast.unparse(node)
    top = symtable.symtable(text, "statement", "exec")
    binds = bound(text)
    updated = {node.target.id} if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) else set()
    here = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    return here | updated | (_names_inside(top) - binds), binds


def _headers(node: ast.stmt) -> tuple[list[ast.AST], list[ast.AST]]:
    """What a statement with a body reads before the body, and the targets that it binds for it."""
    match node:
        case ast.For():
            return [node.iter], [node.target]
        case ast.While() | ast.If():
            return [node.test], []
        case ast.With():
            targets = [item.optional_vars for item in node.items if item.optional_vars]
            return [item.context_expr for item in node.items], [*targets]
        case _:
            return [], []


def _needs(statements: list[ast.stmt], known: set[str]) -> set[str]:
    """The names that statements read before one of them binds them; `known` grows by what they bind."""
    needed: set[str] = set()
    for node in statements:
        if not isinstance(node, ast.For | ast.While | ast.If | ast.With | ast.Try):
            names, binds = _read_by_simple(node)
            needed |= names - known
            known |= binds
            continue
        headers, targets = _headers(node)
        for header in headers:
            names, binds = _read_by_simple(header)  # it binds by :=
            needed |= names - known
            known |= binds
        known |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        handlers = [statement for handler in getattr(node, "handlers", []) for statement in handler.body]
        known |= {handler.name for handler in getattr(node, "handlers", []) if handler.name}
        for body in (node.body, handlers, getattr(node, "orelse", []), getattr(node, "finalbody", [])):
            needed |= _needs(body, known)
    return needed


def read(source: str) -> set[str]:
    """The names that a cell needs from the cells before it; a function may read what is bound after it."""
    needed = _needs(ast.parse(plain_python(source)).body, set())
    return needed - set(dir(builtins)) - {"__name__", "__file__", "display"}


def cells_before(page: Page, plain: Plain, line: int) -> list[str]:
    """The code of the ordinary cells above a line, as a notebook has it."""
    sources = []
    for block in (block for block in page.outside("solution") if block.line < line):
        if block.name == "code-cell" and not {BOOK_ONLY, *OF_AN_EXERCISE} & set(tags(block)):
            sources.append(with_records(block.text.strip("\n"), plain.root))
        elif is_run(block):
            sources.append(plain.source(block)[1])
    return sources


def needed_cells(sources: list[str], names: set[str]) -> list[int]:
    """The places of the cells that define `names`, and of what those cells need, in order."""
    chosen: set[int] = set()
    wanted = [(name, len(sources)) for name in names]
    binds = [bound(source) for source in sources]
    while wanted:
        name, before = wanted.pop()
        place = next((i for i in reversed(range(before)) if name in binds[i]), None)
        if place is not None and place not in chosen:
            chosen.add(place)
            wanted += [(other, place) for other in read(sources[place])]
    return sorted(chosen)


def places(sources: list[str], exercise: Exercise) -> list[int]:
    """Which of the cells before an exercise it stands on."""
    if not exercise.is_graded_by_machine:
        return []
    after = [exercise.cells["check"], exercise.cells["hidden-check"]]
    numbers = exercise.cells.get("numbers", "")
    answers = [exercise.cells["answer"], exercise.cells["solution"], *(w.source for w in exercise.wrong_answers)]
    # What an answer binds is no reason to look for the name above.
    names = set().union(*(read("\n".join([numbers, answer, *after])) for answer in answers))
    return needed_cells(sources, names)


def asked(exercise: Exercise) -> set[str]:
    """The names of an answer that its checks read."""
    cells = exercise.cells
    return (read(cells["check"]) | read(cells["hidden-check"])) & (bound(cells["answer"]) | bound(cells["solution"]))


def context(page: Page, plain: Plain, exercise: Exercise) -> list[str]:
    """The code that must have run before an exercise, its numbers as written last."""
    sources = cells_before(page, plain, exercise.line)
    numbers = [exercise.cells["numbers"]] if "numbers" in exercise.cells else []
    return [*(sources[i] for i in places(sources, exercise)), *numbers]
