"""The choices of a question before a showing, as book_asks.py describes them."""

import re

LINE = re.compile(r"^- \[(?P<right>[ x])\] (?P<choice>[^|]+?) \| (?P<remark>.+)$")


def choices_of(lines: list[str]) -> list[tuple[str, str, bool]]:
    """The choices of a question, each with its remark and whether it is right.

    Raises:
        ValueError: a line of another form, or not exactly one right choice.
    """
    found = [LINE.match(line) for line in lines if line.strip()]
    if None in found:
        raise ValueError("each line of a question must read: - [ ] choice | remark, or - [x] for the right one")
    choices = [(one["choice"], one["remark"], one["right"] == "x") for one in found if one]
    if sum(right for _, _, right in choices) != 1:
        raise ValueError(f"{len(choices)} choices must have exactly one right one, marked [x]")
    return choices
