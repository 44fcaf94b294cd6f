"""The exercises of a chapter, read from its one source: the page itself.

An exercise stands between `exercise-start` and `exercise-end`, its solution between `solution-start` and
`solution-end`. A `{task}` says what kind it is and what it is worth. Tags tell its code cells apart:

    answer         what the student gets, to be filled in
    check          the visible check: a function that answers in words, and one `print` of what it says
    solution       the answer cell, filled in
    hidden-check   assertions that only the grader runs
    wrong-answer   the answer cell with a typical mistake; its option `loses` says how many points that costs
    numbers        names that the statement, the checks and the solutions use; each student may get others (variants.py)

The `{task}` of a prediction names the fields of its answer on the page, `:fields: ones | tens`, and what there is to
choose from, `:choices: one | another`. Of a function to write or to mend it names those that an answer must not call,
`:without: torch.nn.functional.cross_entropy | torch.nn.RNN`.

An exercise without an answer cell is written prose, marked by hand after its `{rubric}`.
"""

import ast
from dataclasses import dataclass, field
from typing import Any

import yaml

from workshop.course.variants import combinations
from workshop.site.book_index import Page
from workshop.site.myst_blocks import Block, PageError

KINDS = ("predict", "write", "bug", "experiment")
DIFFICULTIES = ("easy", "medium", "hard")
# Of a prediction: the labels of its fields on the page, and what there is to choose from. Of a function to write or
# to mend: those that do already what it should do, and refuse while an answer is graded.
LISTS = ("fields", "choices", "without")
PASSED = "Right"  # how the answer of a check begins when there is nothing to mend
ONCE = ("answer", "check", "solution", "hidden-check")
ROLES = (*ONCE, "numbers", "wrong-answer")


@dataclass
class WrongAnswer:
    """A typical mistake as code for the answer cell, and the points that it costs."""

    source: str
    loses: int
    line: int


@dataclass
class Exercise:
    """One exercise; sources are code, statement and explanation are blocks of the page."""

    label: str
    title: str
    line: int
    kind: str
    difficulty: str
    minutes: int
    points: int
    teaches: str
    fields: list[str] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    statement: list[Block] = field(default_factory=list)
    hints: list[Block] = field(default_factory=list)
    explanation: list[Block] = field(default_factory=list)
    rubric: list[tuple[int, str]] = field(default_factory=list)
    cells: dict[str, str] = field(default_factory=dict)
    wrong_answers: list[WrongAnswer] = field(default_factory=list)

    @property
    def is_graded_by_machine(self) -> bool:
        return "answer" in self.cells

    @property
    def visible_points(self) -> int:
        """Half of the points are for the check that the student sees, half for the hidden one."""
        return self.points // 2


def _error(page: Page, line: int, message: str) -> PageError:
    return PageError(f"{page.path.name}:{line}: {message}")


def tags(block: Block) -> list[str]:
    found = block.options.get("tags") or []
    return found if isinstance(found, list) else [found]


def mentions_a_check(statement: ast.stmt) -> bool:
    """Whether a statement shows or asserts what a check says: an `assert`, or a bare call such as `print`."""
    if not isinstance(statement, ast.Assert | ast.Expr):
        return False
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(name, ast.Name) and name.id.startswith("check_") for name in calls)


def _without(source: str, statements: list[ast.stmt]) -> str:
    gone = {line for node in statements for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    kept = [text for number, text in enumerate(source.split("\n"), 1) if number not in gone]
    return "\n".join(kept).strip("\n")


def bare_answer(source: str) -> str:
    """An answer without the lines that show what the check says of it."""
    return _without(source, [node for node in ast.parse(source).body if mentions_a_check(node)])


def split_check(source: str) -> tuple[str, str]:
    """A visible check as its definitions and the call whose words it prints.

    Raises:
        ValueError: if the source does not end in one `print(check_…(…))`.
    """
    body = ast.parse(source).body
    match body[-1:]:
        case [ast.Expr(ast.Call(ast.Name("print"), [call])) as last] if list(filter(mentions_a_check, body)) == [last]:
            return _without(source, [last]), ast.unparse(call)
    raise ValueError("a check cell ends in one `print(check_…(…))`, prints nothing else, and shows no check before")


def _task(page: Page, exercise: Block, inside: list[Block]) -> dict[str, Any]:
    """What the `{task}` of an exercise says, checked."""
    found = [block for block in inside if block.name == "task"]
    if len(found) != 1:
        raise _error(page, exercise.line, f"an exercise needs one {{task}}; this one has {len(found)}")
    task, options = found[0], found[0].options
    if missing := [name for name in ("difficulty", "minutes", "points", "teaches") if not options.get(name)]:
        raise _error(page, task.line, f"the {{task}} does not say: {', '.join(missing)}")
    for word, known in ((task.argument, KINDS), (options["difficulty"], DIFFICULTIES)):
        if word not in known:
            raise _error(page, task.line, f"{word!r} is none of {', '.join(known)}")
    minutes, points = (int(options[name]) for name in ("minutes", "points"))
    if points < 2 or points % 2:
        raise _error(page, task.line, f"{points} points; give an even number, half for each check")
    words = {"kind": task.argument, "difficulty": options["difficulty"], "teaches": options["teaches"]}
    lists = {name: [part.strip() for part in str(options.get(name, "")).split("|") if part.strip()] for name in LISTS}
    return {**words, **lists, "minutes": minutes, "points": points}


def _read_rubric(page: Page, block: Block) -> list[tuple[int, str]]:
    try:
        return [(int(points), str(words)) for line in yaml.safe_load(block.text) for points, words in line.items()]
    except (yaml.YAMLError, AttributeError, TypeError, ValueError):
        raise _error(page, block.line, "a line of a rubric is `- POINTS: what earns them`") from None


def _add_cell(page: Page, exercise: Exercise, block: Block) -> bool:
    """Put a tagged code cell where it belongs; False for a cell that is shown."""
    role = next((tag for tag in tags(block) if tag in ROLES), None)
    if role is None:
        return False
    if role == "wrong-answer":
        if not isinstance(block.options.get("loses"), int):
            raise _error(page, block.line, "a wrong answer needs its option `:loses: POINTS`")
        exercise.wrong_answers.append(WrongAnswer(bare_answer(block.text), block.options["loses"], block.line))
    elif role in exercise.cells:
        raise _error(page, block.line, f"a second {role} cell in {exercise.label}")
    else:
        exercise.cells[role] = block.text if role in {"check", "hidden-check"} else bare_answer(block.text)
    return role != "numbers"


def _checked(page: Page, exercise: Exercise) -> Exercise:
    """The exercise, if it is whole."""
    if not exercise.is_graded_by_machine:
        if sum(points for points, _ in exercise.rubric) != exercise.points:
            raise _error(page, exercise.line, f"the points of the rubric do not add up to {exercise.points}")
        return exercise
    if missing := [role for role in ONCE if role not in exercise.cells]:
        raise _error(page, exercise.line, f"{exercise.label} has no {' and no '.join(missing)} cell")
    if exercise.kind == "predict" and not exercise.fields:
        raise _error(page, exercise.line, f"the {{task}} of {exercise.label} does not name its answer's :fields:")
    if len(exercise.wrong_answers) < 2:
        raise _error(page, exercise.line, f"{exercise.label} needs two typical wrong answers")
    if not exercise.hints:
        raise _error(page, exercise.line, f"{exercise.label} has no hint")
    try:
        split_check(exercise.cells["check"])
        if numbers := exercise.cells.get("numbers"):
            combinations(numbers)
    except ValueError as error:
        raise _error(page, exercise.line, f"{exercise.label}: {error}") from None
    return exercise


def exercises_of(page: Page) -> list[Exercise]:
    """The exercises of a page, in order.

    Raises:
        PageError: naming file and line of what is missing or wrong.
    """
    if loose := [block for block in page.blocks if block.name == "exercise"]:
        raise _error(page, loose[0].line, "write {exercise-start} and {exercise-end} around an exercise")
    found, solutions = [], {start.argument: inside for start, inside in page.inside("solution")}
    for block, inside in page.inside("exercise"):
        label = str(block.options.get("label", ""))
        if label not in solutions:
            raise _error(page, block.line, f"{label} has no {{solution-start}}")
        task = _task(page, block, inside)
        exercise = Exercise(label, block.argument, block.line, **task)
        for parts, shown in ((inside, exercise.statement), (solutions[label], exercise.explanation)):
            for part in parts:
                if part.name == "hint":
                    exercise.hints.append(part)
                elif part.name == "rubric":
                    exercise.rubric = _read_rubric(page, part)
                elif part.name != "task" and not (part.name == "code-cell" and _add_cell(page, exercise, part)):
                    shown.append(part)
        found.append(_checked(page, exercise))
    return found
