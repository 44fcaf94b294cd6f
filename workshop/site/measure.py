"""The measure of each chapter: words of prose, lines of code and asserts that a reader sees; loops listed; figures.

An assert counts in a folded cell, too: a reader unfolds it in the book and finds it in the notebook.

python -m workshop.site.measure    print the table
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from workshop.course.exercises import tags
from workshop.site.book_index import Page
from workshop.site.make_notebooks import BOOK_ONLY
from workshop.site.myst_blocks import Block, blocks, walk
from workshop.site.plain_markdown import Plain, drawn, whole_book

ROOT = Path(__file__).resolve().parents[2]
GOAL = {"words": 1900, "lines": 130, "asserts": 0}
SHORTER = {"first_steps": {"words": 900, "lines": 45, "asserts": 0}}  # one page
OF_EXERCISES = {"check", "hidden-check", "solution", "wrong-answer"}
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"} | OF_EXERCISES
NOT_READ = {BOOK_ONLY} | OF_EXERCISES  # the cells whose asserts do not count
NO_PROSE = {"code-cell", "literalinclude", "code-block", "math", "raw"}
NO_WORDS = re.compile(r"(?s:\$\$.*?\$\$|<!--.*?-->)|^\|.*$|\{[\w:-]+\}(?=`)|(?<=\])\([^()\n]*\)", re.MULTILINE)
WORD = re.compile(r"\$[^$]+\$|[^\W_][\w'’.,-]*")  # a formula within a sentence is a word of it
FOLDING = re.compile(r"\b(dropdown|toggle)\b")  # classes that sphinx-togglebutton folds
ASSERT = re.compile(r"^\s*assert\b", re.MULTILINE)


def shown(found: list[Block]) -> Iterator[Block]:
    """The blocks that a reader sees without unfolding anything, those inside boxes too."""
    for block in found:
        if block.name != "dropdown" and not FOLDING.search(str(block.options.get("class", ""))):
            yield block
            if block.kind == "directive" and block.name not in NO_PROSE:
                yield from shown(blocks(block.body, block.body_line))


def code(block: Block, plain: Plain, left_out: set[str] = FOLDED) -> str:
    """The code of a block, a listing as its source; nothing of a cell with one of the tags that are left out."""
    if block.name == "literalinclude":
        return plain.source(block)[1]
    return block.text if block.name == "code-cell" and not left_out & set(tags(block)) else ""


def has_figure(block: Block, folder: Path) -> bool:
    """Whether a block draws something that it also describes; a drawing of the book holds its description."""
    if block.name in {"figure", "image"}:
        return bool(block.options.get("alt") or drawn(folder / block.argument))
    image = (block.options.get("mystnb") or {}).get("image") or {}
    return block.name == "code-cell" and ("alt" in image or "description=" in block.text)


def end_of(page: Page) -> int:
    """The line at which the exercises or the last box begin."""
    text = page.path.read_text("utf-8").splitlines()
    return next((i for i, line in enumerate(text, 1) if line in {"## Exercises", "## To take away"}), len(text) + 1)


def prose_before(page: Page) -> str:
    """The prose that a reader sees before the exercises."""
    end = end_of(page)
    texts = [block for block in shown(page.blocks) if block.kind == "text" and block.line < end]
    return "\n".join("\n".join(block.body[: end - block.line]) for block in texts)


def measure(page: Page, plain: Plain) -> dict[str, int]:
    """Words, lines of code and figures before the exercises; asserts on the whole page."""
    everything, end = list(shown(page.blocks)), end_of(page)
    before = [block for block in everything if block.line < end]
    prose = prose_before(page)
    lines = "\n".join(code(block, plain) for block in before).splitlines()
    return {
        "words": len(WORD.findall(NO_WORDS.sub(" ", prose))),
        "lines": sum(bool(line.strip()) for line in lines),
        "asserts": sum(len(ASSERT.findall(code(block, plain, NOT_READ))) for block in everything),
        "figures": sum(has_figure(block, page.path.parent) for block in before),
    }


def measured(root: Path = ROOT) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """The measure of each page that asks a question, in order; how often the book lists each loop of reference.py."""
    book = whole_book(root)
    found = {
        name: measure(plain.page, plain)
        for name, plain in book.items()
        if any("question" in str(block.options.get("class", "")) for block in plain.page.blocks)
    }
    listed = [
        block
        for plain in book.values()
        for block in walk(plain.page.blocks)
        if block.argument.endswith("/reference.py")
    ]
    return found, Counter(str(block.options.get("pyobject")) for block in listed if block.name == "literalinclude")


def excess(pages: dict[str, dict[str, int]], loops: dict[str, int]) -> dict[str, dict[str, int]]:
    """The figures above the goal: page → what → figure, and under "loops" those listed more than once."""
    goals = {name: SHORTER.get(name, GOAL) for name in pages}
    over = {
        name: {what: found[what] for what in GOAL if found[what] > goals[name][what]} for name, found in pages.items()
    }
    return {**over, "loops": {name: count for name, count in loops.items() if count > 1}}


def main() -> None:
    pages, loops = measured()
    columns = (*GOAL, "figures")
    total = {what: sum(found[what] for found in pages.values()) for what in columns}
    print(f"{'':22}" + "".join(f"{what:>9}" for what in columns))
    for name, found in {**pages, "all": total}.items():
        print(f"{name:22}" + "".join(f"{found[what]:9}" for what in columns))
    print("listed more than once:", ", ".join(f"{name} {n}" for name, n in loops.items() if n > 1) or "nothing")


if __name__ == "__main__":
    main()
