"""The answers to a question before a showing, as book_asks.py describes them."""

import re

LINE = re.compile(r"^- \[(?P<right>[ x])\] (?P<choice>[^|]+?) \| (?P<remark>.+)$")
OTHER = "else"  # the line that answers every number that no line names


def choices_of(lines: list[str]) -> list[tuple[str, str, bool]]:
    """The choices of a question, each with its remark and whether it is right: a wrong one's begins with No.

    Raises:
        ValueError: a line of another form, not exactly one right choice, or a remark on it that begins without Yes.
    """
    found = [LINE.match(line) for line in lines if line.strip()]
    if None in found:
        raise ValueError("each line of a question must read: - [ ] choice | remark, or - [x] for the right one")
    choices = [
        (one["choice"], one["remark"], True) if one["right"] == "x" else (one["choice"], f"No. {one['remark']}", False)
        for one in found
        if one
    ]
    if sum(right for _, _, right in choices) != 1:
        raise ValueError(f"{len(choices)} choices must have exactly one right one, marked [x]")
    if not all(remark.startswith("Yes") for _, remark, is_right in choices if is_right):
        raise ValueError("the remark on the right choice must begin with Yes; No is put before the others")
    return choices


def told(choices: list[tuple[str, str, bool]]) -> tuple[str, str]:
    """The right answer and what is said of it to somebody who did not choose: no Yes."""
    [(answer, remark)] = [(choice, remark) for choice, remark, is_right in choices if is_right]
    return answer.rstrip("."), remark.removeprefix("Yes")


def span(number: str) -> list[float] | None:
    """The numbers that a line answers: those that round to its digits; of a whole number, the number itself; else, all.

    Raises:
        ValueError: no number.
    """
    if number == OTHER:
        return None
    _, _, decimals = number.partition(".")
    half = 0.5 / 10 ** len(decimals) if decimals else 0.0
    try:
        return [float(number) - half, float(number) + half]
    except ValueError:
        raise ValueError(f"{number!r} is no number; the line for all others begins with {OTHER}") from None


def numbers_of(choices: list[tuple[str, str, bool]]) -> list[list[object]]:
    """The rules of a question for a number: the right answer first, the line for all others last.

    Raises:
        ValueError: what `span` raises, or no last line for all others.
    """
    if choices[-1][0] != OTHER:
        raise ValueError(f"the last line of a question for a number must be: - [ ] {OTHER} | remark")
    choices = sorted(choices, key=lambda choice: not choice[2])
    return [[[span(number)], remark, int(is_right)] for number, remark, is_right in choices]
