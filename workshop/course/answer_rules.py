"""Rules by which a page judges an answer: a box, an interval or a word for each field, and what is said in it."""

import re
from dataclasses import dataclass

from workshop.course.check_probe import Answer, Leaf

Range = tuple[float | None, float | None] | str | None  # an interval with its ends, None: open; a word; None: anything

SLOT = re.compile(r"\{(\d):([^}]*)\}")


@dataclass
class Rule:
    """A box of answers and what the check says there; `{0:g}` in its words is the answer's first field."""

    answer: Answer  # where it began
    box: list[Range]
    words: str
    right: bool = False

    def covers(self, answer: Answer, edge: float = 0.0) -> bool:
        """Whether an answer lies in the box, widened on request by a part of itself."""
        return all(within(leaf, one, edge) for leaf, one in zip(answer, self.box, strict=True))

    def makes_needless(self, other: "Rule") -> bool:
        """Whether this rule says the same in the whole box of another."""
        return all(map(holds, self.box, other.box)) and filled(self.words, other.answer) == filled(
            other.words, other.answer
        )

    @property
    def openness(self) -> int:
        """How many ends are open: the narrower of two boxes is asked first."""
        return sum(2 if one is None else 0 if isinstance(one, str) else one.count(None) for one in self.box)


def within(leaf: Leaf, allowed: Range, edge: float = 0.0) -> bool:
    if allowed is None or isinstance(allowed, str) or isinstance(leaf, str):
        return allowed in (None, leaf)
    low, high = allowed
    width = high - low if low is not None and high is not None else 0.0
    slack = max(1e-9 * max(1.0, abs(leaf)), edge * width)
    return (low is None or leaf >= low - slack) and (high is None or leaf <= high + slack)


def holds(wide: Range, narrow: Range) -> bool:
    """Whether a range lies in another."""
    if not isinstance(wide, tuple) or not isinstance(narrow, tuple):
        return wide is None or wide == narrow
    (low, high), (low_inside, high_inside) = wide, narrow
    below = low is None or (low_inside is not None and low_inside >= low)
    return below and (high is None or (high_inside is not None and high_inside <= high))


def filled(words: str, answer: Answer) -> str:
    """A rule's words for one answer."""

    def value(slot: re.Match[str]) -> str:
        leaf = answer[int(slot[1])]
        if isinstance(leaf, str):
            return leaf
        is_whole = float(leaf).is_integer()
        return format(int(leaf) if is_whole else leaf, slot[2] if is_whole or slot[2] != "d" else "")

    return SLOT.sub(value, words)


def moved(answer: Answer, place: int, value: Leaf) -> Answer:
    return (*answer[:place], value, *answer[place + 1 :])


def narrowed(rule: Rule, part: float) -> Rule:
    """The same words for a part of the box around its answer; open ends close."""
    box: list[Range] = []
    for leaf, allowed in zip(rule.answer, rule.box, strict=True):
        if isinstance(leaf, str):
            box.append(leaf)
            continue
        ends = [leaf if end is None else end for end in (allowed if isinstance(allowed, tuple) else (None, None))]
        box.append((leaf - part * (leaf - ends[0]), leaf + part * (ends[1] - leaf)))
    return Rule(rule.answer, box, rule.words, rule.right)
