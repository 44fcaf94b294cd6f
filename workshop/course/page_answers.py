"""What a page needs to judge a prediction without Python: rules, found by asking the chapter's own check.

A rule is a box of answers, an interval or a word for each field, and what the check says of every answer in it. The
solution's box reaches as far as the check calls an answer right; each typical wrong answer has one as wide, and each
choice its own. An answer in no box is only wrong. No rule is written by hand: whoever changes a check changes what the
page says.

    python -m workshop.course.page_answers [attention …]      prints the questions of chapters as JSON
"""

import ast
import functools
import itertools
import json
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.utils._pytree import tree_leaves, tree_structure, tree_unflatten

from workshop.course.exercises import PASSED, Exercise, exercises_of, split_check
from workshop.course.try_exercises import prepared, run
from workshop.site.book_index import Page
from workshop.site.plain_markdown import Plain, whole_book

Leaf = float | int | str
Answer = tuple[Leaf, ...]  # a value for each field
Range = tuple[float | None, float | None] | str | None  # an interval with its ends, None: open; a word; None: anything
Box = Sequence[Range]
Rule = tuple[Box, str, bool]  # the box, the remark, and whether nothing is left to mend

NOT_ALL = "But not everything is right yet."
ALL = "Right, all of it."
OF_A_PART = re.compile(r"Right(?: for [^:.]+\.|[:.])?\s*")  # praise for what the visible check looks at
CALL = re.compile(r"(?P<check>check_\w+)\((?P<argument>\w+)\)")
NUMBER = re.compile(r"\d[\d.,]*")
UNKNOWN = "?"  # a word that no check expects
INSIDE = 0.999  # of the way to an end: there rounding decides
STEPS = [1e-7 * 1.001**n for n in range(32_300)]  # relative: finer and farther than any tolerance of a check


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
        for node in ast.parse(definitions).body:
            if isinstance(node, ast.FunctionDef) and node.name != match["check"]:  # it counts the same each time
                self.names[node.name] = functools.cache(self.names[node.name])
        self.shape = self._value(exercise.cells["solution"])
        self.solution = self._fields(self.shape)
        self.wrong = [self._fields(self._value(wrong.source)) for wrong in exercise.wrong_answers]
        self.is_whole = all(isinstance(leaf, int) for leaf in self.solution)

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
        return (" ".join(map(str, value)),) if self.is_list_of_choices else tuple(tree_leaves(value))

    def _whole(self, answer: Answer) -> Any:
        if self.is_list_of_choices:
            return [type(self.shape[0])(choice) for choice in str(answer[0]).split()]
        values = [int(one) if isinstance(one, float) and one.is_integer() else one for one in answer]
        return tree_unflatten(values, tree_structure(self.shape))

    @functools.cached_property
    def sees_a_part(self) -> bool:
        """Whether the visible check praises an answer with one field that the hidden check finds wrong."""
        others = [UNKNOWN if isinstance(leaf, str) else 2 * leaf + 1 for leaf in self.solution]
        answers = ((*self.solution[:i], other, *self.solution[i + 1 :]) for i, other in enumerate(others))
        return any(words.startswith(PASSED) and not right for words, right in map(self._said, answers))

    def say(self, answer: Answer) -> tuple[str, bool]:
        """The remark on an answer, and whether nothing is left to mend; no words where the check cannot read it."""
        words, right = self._said(answer)
        if right and self.sees_a_part:
            rest = OF_A_PART.sub("", words, count=1)
            words = f"{ALL} {rest[:1].upper()}{rest[1:]}".strip()
        return words, right

    def _said(self, answer: Answer) -> tuple[str, bool]:
        try:
            self.names[self.variable] = self._whole(answer)
            words = str(eval(self.code, self.names))  # the book's own code
        except Exception:  # what a check cannot read, it may fail on in any way
            return "", False
        if not words.startswith(PASSED):
            return words, False
        passed = not run(self.hidden, dict(self.names))
        return (words if passed else f"{words} {NOT_ALL}"), passed


def alike(said: tuple[str, bool], other: tuple[str, bool]) -> bool:
    """Whether two remarks say the same, numbers aside: those may repeat the answer."""
    return said[1] == other[1] and NUMBER.sub("#", said[0]) == NUMBER.sub("#", other[0])


def reach(says: Callable[[float], bool], value: float, sign: int, whole: bool) -> float | None:
    """The end of the interval around `value`, upwards or downwards, in which a remark stays; None: no end."""
    size = max(1.0, abs(value))
    steps = range(1, int(STEPS[-1] * size)) if whole else [step * size for step in STEPS]
    beyond = bisect_left(steps, True, key=lambda step: not says(value + sign * step))
    if beyond in (0, len(steps)):
        return None if beyond else value
    end = sign * steps[beyond - 1]
    return value + end if whole else float(f"{value + INSIDE * end:.9g}")


def tolerated(check: Check, place: int) -> Range:
    """What may stand in one field while the others are the solution's."""
    said, leaf = check.say(check.solution), check.solution[place]

    def says(value: Leaf) -> bool:
        return alike(check.say((*check.solution[:place], value, *check.solution[place + 1 :])), said)

    if isinstance(leaf, str):
        return None if says(UNKNOWN) else leaf
    low, high = (reach(says, float(leaf), sign, check.is_whole) for sign in (-1, 1))
    return None if low is high is None else (low, high)


def around(check: Check, answer: Answer, box: Box) -> Box:
    """A box around an answer, as wide as the solution's, if the check says the same in its corners; else it alone."""
    shifts: list[tuple[float, float]] = []
    for leaf, one in zip(check.solution, box, strict=True):
        if isinstance(leaf, str) or not isinstance(one, tuple) or one[0] is None or one[1] is None:
            return [one if isinstance(one, str) else (one, one) for one in answer]
        shifts.append((one[0] - leaf, one[1] - leaf))
    numbers = [float(leaf) for leaf in answer]
    wide = [(leaf + down, leaf + up) for leaf, (down, up) in zip(numbers, shifts, strict=True)]
    said = check.say(answer)
    is_same = all(alike(check.say(corner), said) for corner in itertools.product(*wide))
    return wide if is_same else [(leaf, leaf) for leaf in numbers]


def rules_of(check: Check) -> list[Rule]:
    """The rules of an exercise, that of the solution first."""
    if check.choices:
        several = range(1, len(check.choices) + 1) if check.is_list_of_choices else (1,)
        answers = (" ".join(some) for n in several for some in itertools.combinations(check.choices, n))
        return [([one], *check.say((one,))) for one in answers]
    box = [tolerated(check, place) for place in range(len(check.solution))]
    wrong = [(around(check, answer, box), *check.say(answer)) for answer in dict.fromkeys(check.wrong)]
    return [(box, *check.say(check.solution)), *wrong]


def is_asked(exercise: Exercise) -> bool:
    """Whether a page asks this: a prediction that a machine can check."""
    return exercise.kind == "predict" and exercise.is_graded_by_machine


def checks_of(page: Page, plain: Plain) -> Iterator[tuple[Exercise, Check]]:
    """The predictions of a page, each with its check; the cells that it stands on run first."""
    for exercise in filter(is_asked, exercises_of(page)):
        with prepared(page, plain, exercise) as names:
            yield exercise, Check(exercise, names)


def kind_of(check: Check) -> str:
    """How the fields of a question are filled in."""
    if check.choices:
        return "several" if check.is_list_of_choices else "choice"
    return "word" if isinstance(check.solution[0], str) else "whole" if check.is_whole else "number"


def question(exercise: Exercise, check: Check) -> dict[str, Any]:
    """What a page holds of an exercise: what it asks for, and its rules."""
    rules = [[box, words, int(right)] for box, words, right in rules_of(check)]
    return {"fields": exercise.fields, "choices": exercise.choices, "kind": kind_of(check), "rules": rules}


def main() -> None:
    book = whole_book()
    checks = (pair for name in sys.argv[1:] or book for pair in checks_of(book[name].page, book[name]))
    json.dump({exercise.label: question(exercise, check) for exercise, check in checks}, sys.stdout, ensure_ascii=False)


if __name__ == "__main__":
    main()
