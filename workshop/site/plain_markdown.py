"""MyST → the Markdown that notebook hosts read: roles, links and directives become plain text, lists and tables.

What no chapter uses is not known here, and is an error.

Sphinx's resolved doctree was tried instead, on the chapter on attention. It lacks the 14 cells that carry
`remove-cell`, hidden checks among them; of 121 paragraphs and cells, sphinx-markdown-builder (1,475 lines) gave 59
alike, and it knows no box, exercise, solution or caption. Exercises and slides would need the blocks as before; and
reading the book took 33 s of processor time, where all 34 notebooks take 3 s.
"""

import re
import textwrap
from functools import cache
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from markdown_it.token import Token
from sphinx.directives.code import LiteralIncludeReader

from workshop.site import book_names, tables, teaching_plan
from workshop.site.address import Address, configured
from workshop.site.book_index import Index, Page, pages_in_order, read_page
from workshop.site.choices import choices_of, told
from workshop.site.myst_blocks import Block, PageError, blocks, inline_tokens

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 80  # columns of code that a page shows beside both of its bars
DROPPED = {"answers", "exercise-end", "index", "solution-end"}
LIVE = {
    "first-numbers": "Type a number and see where the model looks",
    "head-by-hand": "Turn the query of one head",
    "learning-and-writing": "Step through learning and writing",
    "places-of-words": "Switch the places of words off",
    "what-gpt-keeps": "Switch between a GPT and the model of 2017",
    "live-stepper": "Step through the forward pass",
    "live-training": "Train the model",
    "live-translator": "Open the translator",
}
LABEL = re.compile(r" *\([\w:-]+\)")  # of a formula
BLOCK_ATTRIBUTES = re.compile(r"^\{[.#][^}]*\}\s*$", re.MULTILINE)
DEFINITION = re.compile(r"^(?P<term>\S.*)\n(?:\n)?:[ \t]+(?P<text>.+(?:\n[ \t]+\S.*)*)", re.MULTILINE)


def task_words(kind: str, options: dict[str, Any]) -> str:
    """What a `{task}` says of its exercise, in one line."""
    difficulty, minutes, points = (str(options[name]) for name in ("difficulty", "minutes", "points"))
    name = {"predict": "Predict", "write": "Write", "bug": "Find the bug", "experiment": "Experiment"}[kind]
    parts = [name, difficulty, f"{minutes} minutes", f"{points} points", f"you practise: {options['teaches']}"]
    if without := [path.strip() for path in options.get("without", "").split("|") if path.strip()]:
        names = ", ".join(dict.fromkeys(f"`{path.rpartition('.')[-1]}`" for path in without))
        is_by_kind = any(path.startswith("torch.") for path in without)  # grading/refusal.py knows kinds of PyTorch's
        parts.append(f"without calling {names} {'or what computes the same' if is_by_kind else 'of the library'}")
    return " · ".join(parts)


def drawn(path: Path) -> str:
    """Title and description of one of the book's drawings as one text; nothing for any other picture."""
    if path.parent.name != "drawings" or path.suffix != ".svg":
        return ""
    words = re.findall(r"<(?:title|desc) [^>]*>(.*?)</", path.read_text("utf-8"))
    return unescape(": ".join(words))


def is_run(block: Block) -> bool:
    """Whether a listing becomes a code cell: source that the package does not install, for the reader to run."""
    return block.name == "literalinclude" and "run" in str(block.options.get("class", "")).split()


def bold(heading: str) -> str:
    """A heading that stands in a paragraph, closed by a full stop unless it closes itself."""
    return f"**{heading}**" if heading.endswith((".", "?", "!")) else f"**{heading}.**"


class Plain:
    """Renders the blocks of one page as plain Markdown."""

    def __init__(self, page: Page, index: Index, address: Address, root: Path):
        self.page, self.index, self.address, self.root = page, index, address, root

    def error(self, line: int, message: str) -> PageError:
        return PageError(f"{self.page.path.name}:{line}: {message}")

    # ── text ──────────────────────────────────────────────────────────────────────────────────────────────────

    def inline(self, text: str, line: int) -> str:
        """`text` with its roles and links replaced; code and mathematics stay as they are."""
        parts, links = [""], [""]
        for token in inline_tokens(text):
            is_label = parts[-1].startswith("$$") and LABEL.match(token.content)
            is_bare_link = token.type == "link_close" and parts[-1] == "["
            if is_label or is_bare_link or token.type in {"hardbreak", "image", "substitution_inline"}:
                raise self.error(line, f"{token.type} {token.content or links[-1]!r} is not known in a notebook")
            if token.type == "link_open":
                links.append(self.target(str(token.attrs["href"]), line))
            parts.append(self.written(token, line) if token.type != "link_close" else f"]({links.pop()})")
            line += token.content.count("\n")
        return "".join(parts)

    def written(self, token: Token, line: int) -> str:
        """What stands within a line, as Markdown."""
        if token.type == "myst_role":
            return self.role(token.meta["name"], token.content.strip(), line)
        if token.type == "code_inline" and "`" in token.content:
            return f"{token.markup} {token.content} {token.markup}"
        if token.type in {"code_inline", "math_inline", "math_inline_double"}:
            return f"{token.markup}{token.content}{token.markup}"
        return {"link_open": "[", "text_special": token.markup}.get(token.type, token.content)

    def prose(self, text: str, line: int) -> str:
        return DEFINITION.sub(self._definition, BLOCK_ATTRIBUTES.sub("", self.inline(text, line)))

    @staticmethod
    def _definition(match: re.Match[str]) -> str:
        text = re.sub(r"\n[ \t]+", " ", match["text"])
        return f"- **{match['term'].strip()}**: {text}"

    # ── links ─────────────────────────────────────────────────────────────────────────────────────────────────

    def target(self, name: str, line: int) -> str:
        """The public address of what a link names: a label, a page, a file of the repository, or another site."""
        if re.match(r"^(https?|mailto):", name):
            return name
        page, _, anchor = name.partition("#")
        if href := self.index.href(anchor or page):
            return self.address.site + href
        if not anchor and page.removesuffix(".md") in self.index.pages:
            return f"{self.address.site}{page.removesuffix('.md')}.html"
        return self.address.blob(self.file(name, line))

    def file(self, name: str, line: int) -> str:
        """The path of a file, given relative to the page, from the root of the repository."""
        path = (self.page.path.parent / name).resolve()
        if not path.exists() or not path.is_relative_to(self.root.resolve()):
            raise self.error(line, f"unknown target {name!r}: no label, no page and no file")
        return path.relative_to(self.root.resolve()).as_posix()

    # ── roles ─────────────────────────────────────────────────────────────────────────────────────────────────

    def role(self, name: str, content: str, line: int) -> str:
        if name in {"cite:p", "cite:t"}:
            return self.citations(content, name == "cite:t", line)
        if name == "numref":
            return self.number(content, line)
        if name in book_names.FILES:
            try:
                return book_names.markdown(name, content, self.root)
            except ValueError as error:
                raise self.error(line, str(error)) from None
        raise self.error(line, f"unknown role {{{name}}}")

    def citations(self, keys: str, textual: bool, line: int) -> str:
        try:
            citations = [self.index.citation(key.strip(), textual) for key in keys.split(",")]
        except KeyError as error:
            raise self.error(line, f"no entry {error} in the bibliography") from None
        return "; ".join(citations) if textual else f"({'; '.join(citations)})"

    def number(self, target: str, line: int) -> str:
        """The number of a figure, linked to it."""
        place = self.index.labels.get(target.lower())
        if place is None:
            raise self.error(line, f"unknown label {target!r}")
        if not place.number:
            raise self.error(line, f"{target!r} has no number")
        return f"[{place.number}]({self.target(target, line)})"

    # ── blocks ────────────────────────────────────────────────────────────────────────────────────────────────

    def render(self, page: list[Block]) -> str:
        """The Markdown of some blocks, without the code cells, which stand for themselves."""
        parts = [self.block(block) for block in page]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(part for part in parts if part is not None)).strip("\n")

    def block(self, block: Block) -> str | None:
        if block.kind == "text":
            return self.prose(block.text, block.line)
        if block.kind == "code":
            return block.text
        if block.kind == "fence":
            fence = "````" if "```" in block.text else "```"
            return self._indented(f"{fence}{block.name}\n{self.fitting(block.text, block.line)}\n{fence}", block.indent)
        if block.kind == "directive":
            text = self.directive(block)
            return None if text is None else f"\n{self._indented(text, block.indent)}\n"
        return None

    @staticmethod
    def _indented(text: str, indent: str) -> str:
        return "\n".join(indent + line if line else line for line in text.split("\n"))

    def directive(self, block: Block) -> str | None:
        if block.name in DROPPED:
            return None
        render = {
            "admonition": self.box,
            "ask": self.question,
            "correspondence": lambda block: self.inline(tables.paper_table(self.address), block.line),
            "exercise-start": self.heading,
            "figure": self.figure,
            "hint": self.hint,
            "how-we-know": lambda block: f"**How we know.**\n\n{self.body(block)}",
            "literalinclude": self.listing,
            "rubric": self.body,
            "seeded-defects": lambda _block: tables.defect_table(self.root, self.address),
            "task": self.task,
            "teaching-plan": lambda block: self.inline(teaching_plan.markdown(self.root), block.line),
            **dict.fromkeys(LIVE, self.live),
        }.get(block.name)
        if render is None:
            raise self.error(block.line, f"unknown directive {{{block.name}}}")
        return render(block)

    def body(self, block: Block) -> str:
        inside = blocks(block.body, block.body_line)
        if lost := next(filter(is_run, inside), None):
            raise self.error(lost.line, f"a listing to run inside {{{block.name}}} is no cell: put it before or after")
        return self.render(inside)

    def heading(self, block: Block) -> str:
        number = self.index.number_of(self.page, block)
        title = self.inline(block.argument, block.line)
        return bold(f"{number} ({title})" if number and title else number or title)

    def box(self, block: Block) -> str:
        """A block quotation, headed by the title of the box."""
        text = f"{bold(self.inline(block.argument, block.line))}\n\n{self.body(block)}"
        return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))

    def hint(self, block: Block) -> str:
        """A hint stays closed."""
        return f"<details>\n<summary>Hint</summary>\n\n{self.body(block)}\n\n</details>"

    def question(self, block: Block) -> str:
        """A question before a showing, with its answer closed."""
        choices = choices_of(block.body)
        answer, remark = told(choices)
        offered = "" if "number" in block.options else f" *({', '.join(choice for choice, _, _ in choices)})*"
        opened = f"<summary>Answer</summary>\n\n{answer}{remark}"
        return f"**{block.argument}**{offered}\n\n<details>\n{opened}\n\n</details>"

    def live(self, block: Block) -> str:
        """What runs in the page cannot run in a notebook: a link to it."""
        return f"**[{LIVE[block.name]} on the book's site]({self.address.site}{self.page.name}.html#{block.name}).**"

    def task(self, block: Block) -> str:
        return f"*{task_words(block.argument, block.options)}*"

    def figure(self, block: Block) -> str:
        described = drawn(self.page.path.parent / block.argument).replace("<", r"\<")
        alt = str(block.options.get("alt", described))
        if not alt.strip():
            raise self.error(block.line, f"picture {block.argument} without alt text")
        picture = f"![{alt}]({self.address.raw(self.file(block.argument, block.line))})"
        number = self.index.number_of(self.page, block)
        return f"{picture}\n\n*{number}.* {self.body(block)}" if number else picture

    # ── code ──────────────────────────────────────────────────────────────────────────────────────────────────

    def fitting(self, code: str, line: int) -> str:
        """The code of a block, if a page cuts no line of it; a word that cannot be broken may be longer."""
        for text in code.split("\n"):
            if len(text) > WIDTH and " " in text.strip():
                raise self.error(line, f"{len(text)} columns; wrap at {WIDTH}: {text.strip()}")
        return code

    def source(self, block: Block) -> tuple[str, str]:
        """The path of an included file from the root, and the very lines that the page shows of it."""
        path = self.file(block.argument, block.line)
        options = {key: str(value) for key, value in block.options.items()}
        reader = LiteralIncludeReader(str(self.root / path), options, SimpleNamespace(source_encoding="utf-8"))  # type: ignore[arg-type]
        try:
            text, _ = reader.read()
        except (OSError, ValueError) as error:
            raise self.error(block.line, str(error)) from None
        return path, self.fitting(textwrap.dedent(text).strip("\n"), block.line)

    def listing(self, block: Block) -> str:
        path, text = self.source(block)
        caption = self.inline(str(block.options.get("caption", "")), block.line)
        words = f"{caption} (`{path}`)" if caption else f"`{path}`"
        language = block.options.get("language", "python" if path.endswith(".py") else "")
        return f"[{words}]({self.address.blob(path)}):\n\n```{language}\n{text}\n```"


@cache
def whole_book(root: Path = ROOT) -> dict[str, Plain]:
    """Every page of a book by its name, in order, ready to be rendered."""
    pages = [read_page(path) for path in pages_in_order(root)]
    bibliography = root / "book" / "references.bib"
    index = Index(pages, bibliography if bibliography.exists() else None)
    return {page.name: Plain(page, index, configured(root), root) for page in pages}
