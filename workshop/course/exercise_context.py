"""The cells of a chapter that an exercise stands on: those that define the names it reads, and no others.

A chapter may train a model for a minute before its exercises. An assignment takes over what the exercises use:
from each name that is read, back to the nearest cell before it that binds the name, and so on.
"""

import ast
import builtins
import dis
import symtable
from functools import cache

from workshop.course.exercises import ROLES, Exercise, tags
from workshop.course.grading.exercise_parts import bound, plain_python
from workshop.site.book_index import Page
from workshop.site.make_notebooks import BOOK_ONLY, with_records
from workshop.site.plain_markdown import Plain, is_run


def _names_inside(table: symtable.SymbolTable) -> set[str]:
    """The global names that functions and comprehensions of a table read."""
    names = set()
    for child in table.get_children():
        names |= {symbol.get_name() for symbol in child.get_symbols() if symbol.is_global() and symbol.is_referenced()}
        names |= _names_inside(child)
    return names


@cache  # of a check, for each answer that it judges
def read(source: str) -> frozenset[str]:
    """The names that a cell needs from the cells before it; a function may read what is bound after it."""
    needed: set[str] = set()
    known = {*dir(builtins), "__name__", "__file__", "display"}
    for statement in ast.parse(plain_python(source)).body:
        for step in dis.get_instructions(compile(ast.Module([statement], []), "cell", "exec")):
            if step.opname == "LOAD_NAME" and step.argval not in known:  # before anything stored it
                needed.add(step.argval)
            elif step.opname == "STORE_NAME":
                known.add(step.argval)
        needed |= _names_inside(symtable.symtable(ast.unparse(statement), "statement", "exec")) - known
    return frozenset(needed)


def cells_before(page: Page, plain: Plain, line: int) -> list[str]:
    """The code of the ordinary cells above a line, as a notebook has it."""
    sources = []
    for block in (block for block in page.outside("solution") if block.line < line):
        if block.name == "code-cell" and not {BOOK_ONLY, *ROLES} & set(tags(block)):
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
    after = [exercise.cells["check"], exercise.cells["hidden-check"]]
    numbers = exercise.cells.get("numbers", "")
    answers = [exercise.cells["answer"], exercise.cells["solution"], *(w.source for w in exercise.wrong_answers)]
    # What an answer binds is no reason to look for the name above.
    names = set().union(*(read("\n".join([numbers, answer, *after])) for answer in answers))
    return needed_cells(sources, names)


def asked(exercise: Exercise) -> frozenset[str]:
    """The names of an answer that its checks read."""
    cells = exercise.cells
    return (read(cells["check"]) | read(cells["hidden-check"])) & (bound(cells["answer"]) | bound(cells["solution"]))


def context(page: Page, plain: Plain, exercise: Exercise) -> list[str]:
    """The code that must have run before an exercise, its numbers as written last."""
    sources = cells_before(page, plain, exercise.line)
    numbers = [exercise.cells["numbers"]] if "numbers" in exercise.cells else []
    return [*(sources[i] for i in places(sources, exercise)), *numbers]
