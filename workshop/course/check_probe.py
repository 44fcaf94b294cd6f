"""The check of a prediction as a function of single values, and the answers that it may tell apart."""

import ast
import functools
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

from workshop.course.exercise_context import bound
from workshop.course.exercises import PASSED, Exercise, split_check
from workshop.course.try_exercises import run

Leaf = float | int | str
Answer = tuple[Leaf, ...]  # a value for each field

NOT_ALL = "But not everything is right yet."
CALL = re.compile(r"(?P<check>check_\w+)\((?P<argument>\w+)\)")
ELSEWHERE = (0.037, 0.63, 2.7, 13, 73.5, 86_421)  # answers that no check expects
UNKNOWN = "?"  # the same, where words are asked for
MANY = 1000  # no answer is compared with so many numbers


VALUES = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Constant, ast.Name, ast.Subscript, ast.Tuple, ast.List)


class Watched(ast.NodeTransformer):
    """Passes the value of every expression through `_seen`, but for those inside a remark."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, VALUES) and isinstance(getattr(node, "ctx", None), ast.Load | None):
            return ast.Call(ast.Name("_seen", ast.Load()), [node], [])
        return node

    def visit_Slice(self, node: ast.Slice) -> ast.AST:
        return node

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        return node if any(isinstance(part, ast.Slice) for part in node.elts) else self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node


def leaves(value: Any) -> Answer:
    """The single values of an answer, in order."""
    if not isinstance(value, dict | list | tuple):
        return (value,)
    return tuple(itertools.chain.from_iterable(map(leaves, value.values() if isinstance(value, dict) else value)))


def like(shape: Any, values: Iterator[Leaf]) -> Any:
    """An answer of the same shape with other values, whole numbers as such."""
    if isinstance(shape, dict):
        return {key: like(part, values) for key, part in shape.items()}
    if isinstance(shape, list | tuple):
        return type(shape)(like(part, values) for part in shape)
    value = next(values)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class Check:
    """What an exercise says of an answer, which is given as the values of its fields."""

    def __init__(self, exercise: Exercise, names: dict[str, Any]):
        self.names, self.choices, self.hidden = names, exercise.choices, exercise.cells["hidden-check"]
        definitions, self.call = split_check(exercise.cells["check"])
        match = CALL.fullmatch(self.call)
        if match is None:
            raise ValueError(f"{self.call} is not one check of one name")
        if error := run(definitions, self.names):
            raise ValueError(f"the check {self.call} failed: {error}")
        self.variable, self.code = match["argument"], compile(self.call, "<check>", "eval")
        for name in bound(definitions) - {match["check"]}:
            value = self.names[name]
            self.names[name] = functools.cache(value) if callable(value) else value  # it counts the same each time
        self.shape = self._value(exercise.cells["solution"])
        self.solution = self._fields(self.shape)
        self.wrong = [self._fields(self._value(wrong.source)) for wrong in exercise.wrong_answers]
        self.is_whole = all(isinstance(leaf, int) for leaf in self.solution)
        self.elsewhere = [base for base in ELSEWHERE if base > 10 or not self.is_whole]
        self.compared = self._compared(definitions)
        flat = itertools.chain(*(leaves(value) for value in self.compared), self.solution, *self.wrong)
        self.expected = {leaf for leaf in flat if is_number(leaf) or isinstance(leaf, str)} | {*self.choices}
        self.expected -= {leaf for answer in ([] if self.choices else self._away()) for leaf in answer}
        self.expected |= {-leaf for leaf in self.expected if not isinstance(leaf, str)}
        self.known: dict[Answer, tuple[str, bool]] = {}

    @property
    def is_list_of_choices(self) -> bool:
        return bool(self.choices) and isinstance(self.shape, list)

    def _value(self, source: str) -> Any:
        names = dict(self.names)
        if error := run(source, names):
            raise ValueError(f"an answer of {self.call} failed: {error}\n{source}")
        return names[self.variable]

    def _fields(self, value: Any) -> Answer:
        """The values of the fields; several choices of a list are one field."""
        return (" ".join(map(str, value)),) if self.is_list_of_choices else leaves(value)

    def _whole(self, answer: Answer) -> Any:
        if self.is_list_of_choices:
            return [type(self.shape[0])(choice) for choice in str(answer[0]).split()]
        return like(self.shape, iter(answer))

    def say(self, answer: Answer) -> tuple[str, bool]:
        """The remark on an answer, and whether nothing is left to mend; no words where the check cannot read it."""
        if answer not in self.known:
            self.known[answer] = self._say(answer)
        return self.known[answer]

    def _say(self, answer: Answer) -> tuple[str, bool]:
        self.names[self.variable] = self._whole(answer)
        try:
            words = str(eval(self.code, self.names))  # the book's own code
        except Exception:  # what a check cannot read, it may fail on in any way
            return "", False
        if not words.startswith(PASSED):
            return words, False
        passed = not run(self.hidden, dict(self.names))
        return (words if passed else f"{words} {NOT_ALL}"), passed

    def _compared(self, definitions: str) -> list[Any]:
        """The values that occur in the check while it judges the solution and the wrong answers."""
        found: list[Any] = []

        def seen(value: Any) -> Any:
            if not hasattr(value, "tolist"):
                found.append(value)
            elif math.prod(value.shape) <= MANY:
                found.append(value.tolist())
            return value

        tree = ast.parse(definitions)
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            function.body = [Watched().visit(statement) for statement in function.body]
        names = {**self.names, "_seen": seen}
        if error := run(ast.unparse(ast.fix_missing_locations(tree)), names):
            raise ValueError(f"{self.call} cannot be watched: {error}")
        for answer in (self.solution, *self.wrong, *([] if self.choices else self._away())):
            run(self.call, {**names, self.variable: self._whole(answer)})
        return found

    def candidates(self) -> list[Answer]:
        """Answers that the check may tell apart, and some that it does not expect."""
        if self.choices:
            several = range(1, len(self.choices) + 1) if self.is_list_of_choices else (1,)
            return [(" ".join(some),) for n in several for some in itertools.combinations(self.choices, n)]
        if isinstance(self.solution[0], str):
            nested = [value if isinstance(value, list | tuple) else [value] for value in self.compared]
            words = [word for words in nested for word in words if isinstance(word, str)]
            return self._replaced([*words, UNKNOWN])
        lists = [tuple(value) for value in self.compared if isinstance(value, list | tuple)]
        lists = [one for one in lists if len(one) == len(self.solution) and all(map(is_number, one))]
        numbers = [value for value in (*self.compared, *itertools.chain(*lists)) if is_number(value)]
        numbers = [value for value in numbers if value == int(value) or not self.is_whole]
        return [*lists, *self._replaced([*numbers, *(-number for number in numbers)]), *self._away()]

    def _away(self) -> list[Answer]:
        """Answers that the check does not expect."""
        if isinstance(self.solution[0], str):
            return [(UNKNOWN,) * len(self.solution)]
        digits, places = (None if self.is_whole else 4), range(len(self.solution))
        return [tuple(round(base * (1 + 0.13 * i), digits) for i in places) for base in self.elsewhere]

    def _replaced(self, values: list[Any]) -> list[Answer]:
        """The solution, and answers away from it, with another value in one field; its first fields alone."""
        places, away = range(len(self.solution)), self._away()
        bases = (self.solution, *away[-2:])
        found = [(*base[:i], value, *base[i + 1 :]) for base in bases for i in places for value in values]
        found += [(*self.solution[:i], *other[i:]) for other in away for i in places]
        return list(dict.fromkeys(found))
