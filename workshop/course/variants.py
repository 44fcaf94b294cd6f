"""The numbers of an exercise, drawn for each student from the key of a class.

A cell with the tag `numbers` holds plain assignments, each with what there is to choose from in its comment:

    num_keys = 5  # 4..15
    d_v = 64  # 48 | 64 | 80..95

The page, Colab and a class without a key use the numbers as written. With a key, HMAC-SHA256 chooses one of all
combinations for each student. Nothing of the key is written anywhere: the grader draws the same numbers again.
"""

import ast
import hmac
import itertools
import re
import unicodedata
from pathlib import Path
from typing import Any

from workshop.course.grading import class_list

LINE = re.compile(r"(?P<name>\w+) = (?P<value>.+?)  # (?P<choices>.+)")
RANGE = re.compile(r"(\d+)\.\.(\d+)")
MOST = 100  # combinations of one exercise, each of which is tried
KEY_LENGTH = 32  # letters of a key: those of 16 random bytes
# It stands above the numbers in a student's notebook, where they are words and bind no name.
HEAD = """\
# These numbers are drawn for you. Write numbers into your answer:
# no cell knows the names below, neither here nor where it is graded.
"""


def _choices(text: str) -> list[str]:
    """The choices of a comment, as they are written."""
    found = []
    for part in map(str.strip, text.split("|")):
        if match := RANGE.fullmatch(part):
            found += map(str, range(int(match[1]), int(match[2]) + 1))
        else:
            ast.literal_eval(part)
            found.append(part)
    return found


def combinations(source: str) -> list[str]:
    """Every form that a numbers cell may take, without its comments; the one that is written comes first.

    Raises:
        ValueError: a line that is no assignment with its choices, or too many combinations to try.
    """
    written, every = [], []
    for line in filter(None, source.split("\n")):
        match = LINE.fullmatch(line)
        try:
            choices = _choices(match["choices"]) if match else []
        except (ValueError, SyntaxError):
            choices = []
        if match is None or match["value"] not in choices:
            raise ValueError(f"{line!r}: write a number and its choices: `d_k = 64  # 16 | 64` or `n = 5  # 3..9`")
        written.append(f"{match['name']} = {match['value']}")
        every.append([f"{match['name']} = {choice}" for choice in choices])
    found = ["\n".join(lines) for lines in itertools.product(*every)]
    if not 1 < len(found) <= MOST:
        raise ValueError(f"combinations of its numbers: {len(found)}; give 2 to {MOST}, for each of them is tried")
    return sorted(found, key=lambda one: one != "\n".join(written))


def written(source: str) -> str:
    """The numbers as they are written, without what there is to choose from."""
    return re.sub(r"  # .*", "", source)


def drawn(source: str, key: bytes, student: str, label: str) -> str:
    """The numbers of a student for an exercise."""
    every = combinations(source)
    whose = f"{unicodedata.normalize('NFC', student)}\0{label}".encode()
    return every[int.from_bytes(hmac.digest(key, whose, "sha256")) % len(every)]


class _Written(ast.NodeTransformer):
    """Writes numbers in place of their names."""

    def __init__(self, numbers: str):
        assignments = [node for node in ast.parse(numbers).body if isinstance(node, ast.Assign)]
        self.values = {ast.unparse(node.targets[0]): node.value for node in assignments}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def put_in(notebook: dict[str, Any], key: bytes, student: str) -> None:
    """Exchange the numbers of a release for those of a student.

    The notebook only shows them, and its visible check holds them: an answer that reads their names fails at once, as
    it will where it is graded. The grader executes what `drawn` holds, and puts its own check back.
    """
    numbers: dict[str, str] = {}
    for cell in notebook["cells"]:
        book, source = cell["metadata"].get("book", {}), "".join(cell["source"])
        is_visible_check = cell["metadata"].get("nbgrader", {}).get("grade_id", "").endswith("-check")
        if label := book.get("numbers"):
            numbers[label] = book["drawn"] = drawn(book.get("choices", source), key, student, label)
            cell["source"] = HEAD + "".join(f"# {line}\n" for line in numbers[label].split("\n")).rstrip()
            del cell["metadata"]["nbgrader"]  # or it would put back the numbers as they are written
        elif book.get("answer") in numbers and is_visible_check:
            tree = _Written(numbers[book["answer"]]).visit(ast.parse(source))
            cell["source"] = ast.unparse(ast.fix_missing_locations(tree))


def is_drawn(file: Path) -> bool:
    """Whether a notebook shows numbers that were drawn for its student."""
    return HEAD.partition("\n")[0] in file.read_text("utf-8", "replace")


def read_key(path: Path) -> bytes:
    """The key of a class.

    Raises:
        ValueError: a file that is missing, or holds too short a key.
    """
    if not path.is_file():
        command = f"python3 -c 'import secrets; print(secrets.token_hex())' > {path}"
        raise ValueError(f"there is no key {path}. Make one for each class, and keep it to yourself: {command}")
    key = path.read_bytes().strip()
    if len(key) < KEY_LENGTH:
        raise ValueError(f"letters of the key in {path}: {len(key)}; {KEY_LENGTH} are the least, or it can be guessed")
    return key


def read_class(students: Path | None, key: Path | None, option: str) -> tuple[dict[str, str] | None, bytes]:
    """The class list, named by this option, and the key of the class, where they are given.

    Raises:
        SystemExit: a key without a class list, or what read_key and class_list.read refuse.
    """
    if key and not students:
        raise SystemExit(f"error: --variants needs {option}: numbers are drawn for the names on the class list")
    try:
        return class_list.read(students) if students else None, read_key(key) if key else b""
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from None
