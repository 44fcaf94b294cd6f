"""Split a MyST page into blocks by the tokens of myst_parser: text, fences, directives, targets, comments, breaks.

What stands within a line is found by the inline rules of the same parser.
"""

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser
from myst_parser.parsers.options import options_to_items

PARSER = create_md_parser(MdParserConfig(enable_extensions={"colon_fence"}), RendererHTML)
PARSER.core.ruler.enableOnly(["normalize", "block"])  # what stands within a line stays as it is
KINDS = {"fence": "fence", "colon_fence": "fence", "code_block": "code", "front_matter": "comment"}
KINDS |= {"myst_target": "target", "myst_line_comment": "comment", "myst_block_break": "break"}
INLINE = create_md_parser(
    MdParserConfig(enable_extensions={"attrs_inline", "dollarmath", "substitution"}, dmath_double_inline=True),
    RendererHTML,
)
INLINE.inline.ruler.enableOnly(
    ["text", "escape", "attr", "backticks", "image", "link", "math_inline", "myst_role", "span", "substitution_inline"]
)
DIRECTIVE = re.compile(r"^\{(?P<name>[\w:-]+)\}\s*(?P<argument>.*)$")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C where it is there: four times as fast


class PageError(Exception):
    """Something in a page that cannot become a notebook; the message names file and line."""


@dataclass
class Block:
    """A piece of a page; `line` is where it starts in the file, `body_line` where its body starts."""

    kind: str  # "text", "code" (indented), "fence", "directive", "target", "comment" or "break"
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


def _options(name: str, body: list[str]) -> tuple[dict[str, Any], int]:
    """The options at the head of a directive's body and the number of lines they take."""
    if body and body[0].strip() == "---":
        end = next((i for i, line in enumerate(body[1:], 1) if line.strip() == "---"), len(body))
        text, used = "\n".join(body[1:end]), end + 1
    else:
        used = next((i for i, line in enumerate(body) if not line.startswith(":")), len(body))
        text = "\n".join(line[1:] for line in body[:used])
    return yaml.load(text, LOADER) or {} if name == "code-cell" else dict(options_to_items(text)[0]), used


def _fenced(token: Token, line: int, indent: str) -> Block:
    """The block of a fence: a directive or code."""
    body = token.content.removesuffix("\n").split("\n") if token.content else []
    if not (directive := DIRECTIVE.match(token.info.strip())):
        return Block("fence", line, body, line + 1, token.info.strip(), indent=indent)
    name, argument = directive["name"], directive["argument"].strip()
    options, used = _options(name, body)
    while used < len(body) and not body[used].strip():
        used += 1
    return Block("directive", line, body[used:], line + 1 + used, name, argument, indent, options)


def blocks(lines: list[str], first_line: int = 1) -> list[Block]:
    """The blocks of `lines`, the first of which is line `first_line` of its file."""
    return [*_read("\n".join(lines), first_line)] if lines else []


@cache  # notebooks, slides, assignments and the tests ask for the same pages again and again
def _read(text: str, first_line: int) -> list[Block]:
    page: list[Block] = []
    lines = text.split("\n")
    at = 0
    for token in (token for token in PARSER.parse(text) if token.type in KINDS):
        start, end = token.map or (at, at)
        line = first_line + start
        if at < start:
            page.append(Block("text", first_line + at, lines[at:start]))
        if KINDS[token.type] == "fence":
            indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
            page.append(_fenced(token, line, indent))
        else:
            page.append(Block(KINDS[token.type], line, lines[start:end], line, token.content))
        at = end
    if at < len(lines):
        page.append(Block("text", first_line + at, lines[at:]))
    return page


def walk(page: list[Block]) -> list[Block]:
    """All blocks of a page, those inside directives too, in reading order."""
    out: list[Block] = []
    for block in page:
        out.append(block)
        if block.kind == "directive" and block.name not in {"code-cell", "literalinclude"}:
            out += walk(blocks(block.body, block.body_line))
    return out


def inline_tokens(text: str) -> list[Token]:
    """What stands within the lines of a text, in order: roles, links, formulas, code; all else is text."""
    tokens: list[Token] = []
    INLINE.inline.parse(text, INLINE, {}, tokens)
    return tokens
