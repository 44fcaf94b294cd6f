"""Split a MyST page into blocks: text, code fences, directives, targets, comments and breaks between cells."""

import re
import textwrap
from dataclasses import dataclass, field
from typing import Any

import yaml

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}|:{3,})(?P<info>.*)$")
DIRECTIVE = re.compile(r"^\{(?P<name>[\w:-]+)\}\s*(?P<argument>.*)$")
TARGET = re.compile(r"^\((?P<label>[^)\n]+)\)=\s*$")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C where it is there: four times as fast
OPTION = re.compile(r"^:([\w-]+):\s*(.*)$")


class PageError(Exception):
    """Something in a page that cannot become a notebook; the message names file and line."""


@dataclass
class Block:
    """A piece of a page; `line` is where it starts in the file, `body_line` where its body starts."""

    kind: str  # "text", "fence", "directive", "target", "comment" or "break"
    line: int
    body: list[str]
    body_line: int = 0
    name: str = ""
    argument: str = ""
    indent: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "\n".join(self.body)


def end_of_front_matter(lines: list[str]) -> int:
    """The index of the first line after the YAML at the head of a page."""
    if not lines or lines[0].strip() != "---":
        return 0
    return next(i for i, line in enumerate(lines[1:], 2) if line.strip() == "---")


def _options(name: str, body: list[str]) -> tuple[dict[str, Any], int]:
    """The options at the head of a directive's body and the number of lines they take."""
    if body and body[0].strip() == "---":
        end = next((i for i, line in enumerate(body[1:], 1) if line.strip() == "---"), len(body))
        return yaml.load("\n".join(body[1:end]), LOADER) or {}, min(end + 1, len(body))
    count = next((i for i, line in enumerate(body) if not line.startswith(":")), len(body))
    if name == "code-cell":
        return yaml.load("\n".join(line[1:] for line in body[:count]), LOADER) or {}, count
    options: dict[str, Any] = {}
    for i, line in enumerate(body[:count]):
        if not (match := OPTION.match(line)):
            return options, i
        options[match[1]] = match[2].strip()
    return options, count


def _closing(lines: list[str], start: int, fence: str) -> int:
    """The index of the line that closes the fence opened before `start`."""
    closing = re.compile(rf"^\s*{re.escape(fence[0])}{{{len(fence)},}}\s*$")
    return next((i for i in range(start, len(lines)) if closing.match(lines[i])), len(lines))


def _fenced(match: re.Match[str], body: list[str], line: int) -> Block:
    """The block of a fence: a directive or code."""
    indent = match["indent"]
    body = [text.removeprefix(indent) for text in body]
    if not (directive := DIRECTIVE.match(match["info"].strip())):
        return Block("fence", line, body, line + 1, match["info"].strip(), indent=indent)
    options, used = _options(directive["name"], body)
    rest = body[used:]
    while rest and not rest[0].strip():
        rest, used = rest[1:], used + 1
    name, argument = directive["name"], directive["argument"].strip()
    return Block("directive", line, rest, line + 1 + used, name, argument, indent, options)


def _line_kind(line: str) -> str:
    if TARGET.match(line):
        return "target"
    if line.startswith("%"):
        return "comment"
    return "break" if line.startswith("+++") else "text"


def blocks(lines: list[str], first_line: int = 1) -> list[Block]:
    """The blocks of `lines`, the first of which is line `first_line` of its file."""
    page: list[Block] = []
    i = 0
    while i < len(lines):
        line = first_line + i
        if match := FENCE.match(lines[i]):
            end = _closing(lines, i + 1, match["fence"])
            page.append(_fenced(match, lines[i + 1 : end], line))
            i = end + 1
            continue
        kind = _line_kind(lines[i])
        if kind == "text" and page and page[-1].kind == "text":
            page[-1].body.append(lines[i])
        else:
            page.append(Block(kind, line, [lines[i]], line))
        i += 1
    return page


def walk(page: list[Block]) -> list[Block]:
    """All blocks of a page, those inside directives too, in reading order."""
    out: list[Block] = []
    for block in page:
        out.append(block)
        if block.kind == "directive" and block.name not in {"code-cell", "code-block", "math", "literalinclude", "raw"}:
            out += walk(blocks(block.body, block.body_line))
    return out


def dedented(source: str) -> str:
    return textwrap.dedent(source).strip("\n")
