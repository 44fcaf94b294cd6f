"""What a page needs to judge a prediction without Python: rules, found by asking the chapter's own check.

A rule is a box of answers, an interval or a word for each field, and what the check says of every answer in it. Boxes
begin at the solution, at the typical wrong answers and at the values that the check compares with. Each grows until
the check says something else. An answer in no box is only wrong. No rule is written by hand: whoever changes a check
changes what the page says.

    python -m workshop.course.page_answers [attention …]      prints the questions of chapters as JSON
"""

import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from workshop.course.answer_rules import SLOT, Range, Rule, filled, moved, narrowed, within
from workshop.course.check_probe import UNKNOWN, Answer, Check, Leaf
from workshop.course.exercise_context import context
from workshop.course.exercises import Exercise, exercises_of
from workshop.course.try_exercises import prepared
from workshop.site.book_index import Page
from workshop.site.plain_markdown import Plain, whole_book

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
FORMATS = ("g", "d", ",", ".2f", ".3f")
FAR, NEAR = 1e7, 1e-7  # relative: farther than any tolerance of a check, finer than any
HALVINGS, WHOLE_HALVINGS = 12, 40
INSIDE = 0.9999  # of the way to an end: there rounding decides
EDGE = 0.02  # of a box: so near to its end, where a tolerance ends, no sample decides
SAMPLES = 24


def with_slots(check: Check, answer: Answer) -> str:
    """The remark on an answer with a slot in place of each number or word that it repeats."""
    words, _ = check.say(answer)
    for place, leaf in enumerate(answer):
        others: list[Leaf] = [UNKNOWN] if isinstance(leaf, str) else [leaf + 1, leaf - 1, 3_000_000, *check.elsewhere]
        changes = [moved(answer, place, other) for other in others]

        def agreeing(words: str, changes: list[Answer] = changes) -> int:
            return sum(check.say(one)[0] == filled(words, one) for one in changes)

        slots = [f"{{{place}:{style}}}" for style in (FORMATS if not isinstance(leaf, str) else ("",))]
        forms = [
            re.sub(rf"(?<![\w.,]){re.escape(filled(one, answer))}(?![.,]?\w)", one, words, count=1) for one in slots
        ]
        if forms := [form for form in forms if form != words]:
            words = max([words, *forms], key=agreeing)
    return words


def reach(says: Callable[[float], bool], value: float, sign: int, whole: bool) -> float | None:
    """The end of the interval around `value`, upwards or downwards, in which a remark stays; None: no end."""
    unit = sign * (1 if whole else max(1.0, abs(value)))
    if says(value + FAR * max(1, abs(value)) * sign):
        return None
    low = 1 if whole else NEAR
    if not says(value + low * unit):
        return value
    while says(value + 10 * low * unit):
        low *= 10
    high = 10 * low
    for _ in range(WHOLE_HALVINGS if whole else HALVINGS):
        middle = (low + high) // 2 if whole else (low + high) / 2
        low, high = (middle, high) if says(value + middle * unit) else (low, middle)
    return value + low * unit if whole else float(f"{value + INSIDE * low * unit:.9g}")


def grown(check: Check, answer: Answer, words: str) -> Rule:
    """The rule around one answer."""
    right = check.say(answer)[1]

    def says(place: int, value: Leaf) -> bool:
        other = moved(answer, place, value)
        return check.say(other) == (filled(words, other), right)

    box: list[Range] = []
    for place, leaf in enumerate(answer):
        if isinstance(leaf, str):
            box.append(leaf if check.choices or not says(place, UNKNOWN) else None)
            continue
        ends = [reach(lambda value, at=place: says(at, value), leaf, sign, check.is_whole) for sign in (-1, 1)]
        box.append(None if ends == [None, None] else (ends[0], ends[1]))
    return Rule(answer, box, words, right)


def drawn(generator: random.Random, leaf: Leaf, allowed: Range, whole: bool) -> Leaf:
    """A value of a range, a word where `leaf` is one."""
    if isinstance(leaf, str) or isinstance(allowed, str):
        return UNKNOWN if allowed is None else leaf
    low, high = allowed or (None, None)
    if low is not None and high is not None:
        part = generator.choice([EDGE, 1 - EDGE, generator.random()])
        return low + (round(part * (high - low)) if whole else part * (high - low))
    size = round(10 ** generator.uniform(0, 6)) * (1 if whole else generator.choice([1, 0.5, 0.01]))
    return low + size if low is not None else high - size if high is not None else size


def samples(check: Check, rule: Rule) -> Iterator[Answer]:
    """Answers of a rule's box: its own, any, and such as have two equal fields or one of the solution's."""
    generator = random.Random(0)
    yield rule.answer
    for _ in range(SAMPLES):
        ranges = zip(rule.answer, rule.box, strict=True)
        answer = tuple(drawn(generator, leaf, allowed, check.is_whole) for leaf, allowed in ranges)
        yield answer
        place = generator.randrange(len(answer))
        for value in (answer[0], check.solution[place]):
            if within(value, rule.box[place]):
                yield moved(answer, place, value)


def is_sound(check: Check, rule: Rule, before: list[Rule]) -> bool:
    """Whether the check says a rule's words all over its box, where no rule before it speaks or ends."""
    return all(
        any(other.covers(answer, EDGE) for other in before)
        or check.say(answer) == (filled(rule.words, answer), rule.right)
        for answer in samples(check, rule)
    )


def boxes(check: Check) -> Iterator[Rule]:
    """A rule around each answer that the chapter names, and around others that the check tells apart."""
    named = [check.solution, *check.wrong]
    found: list[Rule] = []
    texts: dict[str, str] = {}
    for answer in dict.fromkeys([*named, *check.candidates()]):
        said, _ = check.say(answer)
        if not said or any(rule.covers(answer) and filled(rule.words, answer) == said for rule in found):
            continue  # a rule says so already
        words = said if check.choices else with_slots(check, answer)
        # A number that differs from answer to answer, and for which there is no slot, belongs to one answer alone.
        is_one_of_many = not SLOT.search(words) and words != texts.setdefault(
            NUMBER.sub("#", SLOT.sub("#", words)), words
        )
        if answer in named or check.choices or not is_one_of_many:
            rule = grown(check, answer, words)
            # What holds in each field alone, "40 in either", holds in no box of both; its parts are still to be found.
            found += [rule] if answer not in named or rule.openness < 2 * len(answer) else []
            yield rule


def rules_of(check: Check) -> list[Rule]:
    """The rules of an exercise, the narrow ones before the wide ones."""
    named = [check.solution, *check.wrong]
    sound: list[Rule] = []
    for rule in sorted(boxes(check), key=lambda rule: rule.openness):
        forms = [rule] if rule.answer in named or check.choices or is_expected(check, rule) else []
        forms += [narrowed(rule, part) for part in (1, 0.5, 0.1, 0) if rule.answer in named]
        sound += [form for form in forms if is_sound(check, form, sound)][:1]
    return [rule for i, rule in enumerate(sound) if not any(other.makes_needless(rule) for other in sound[i + 1 :])]


def is_expected(check: Check, rule: Rule) -> bool:
    """Whether a rule speaks of values that the chapter names, or of no values in particular."""
    pairs = zip(rule.answer, rule.box, strict=True)
    return all(leaf in check.expected or one is None or (isinstance(one, tuple) and None in one) for leaf, one in pairs)


def is_asked(exercise: Exercise) -> bool:
    """Whether a page asks this: a prediction that a machine can check."""
    return exercise.kind == "predict" and exercise.is_graded_by_machine


def checks_of(page: Page, plain: Plain) -> Iterator[tuple[Exercise, Check]]:
    """The predictions of a page, each with its check; the cells that it stands on run first."""
    for exercise in filter(is_asked, exercises_of(page)):
        names = prepared(context(page, plain, exercise))
        yield exercise, Check(exercise, names)
        for value in names.values():
            if isinstance(value, tempfile.TemporaryDirectory):
                value.cleanup()


def question(exercise: Exercise, check: Check) -> dict[str, Any]:
    """What a page holds of an exercise: what it asks for, and its rules."""
    kind = (
        "several"
        if check.is_list_of_choices
        else "choice"
        if check.choices
        else "whole"
        if check.is_whole
        else "number"
    )
    kind = "word" if isinstance(check.solution[0], str) and not check.choices else kind
    rules = [[rule.box, rule.words, int(rule.right)] for rule in rules_of(check)]
    return {"fields": exercise.fields, "choices": exercise.choices, "kind": kind, "rules": rules}


def main() -> None:
    book = whole_book()
    checks = (pair for name in sys.argv[1:] or book for pair in checks_of(book[name].page, book[name]))
    json.dump({exercise.label: question(exercise, check) for exercise, check in checks}, sys.stdout, ensure_ascii=False)


if __name__ == "__main__":
    main()
