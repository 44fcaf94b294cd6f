"""MyST → the Markdown that notebook hosts read: roles, links and directives become plain text, lists and tables."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sphinx.directives.code import LiteralIncludeReader

from workshop.site import defect_table, drawings, paper_table, teaching_plan
from workshop.site.address import Address
from workshop.site.book_index import Index, Page
from workshop.site.myst_blocks import Block, PageError, blocks, dedented

BOXES = {"note", "tip", "warning", "important", "hint", "seealso", "caution", "attention", "admonition", "dropdown"}
QUOTES = {"epigraph", "pull-quote", "margin", "sidebar", "aside"}
DROPPED = {"bibliography", "tableofcontents", "exercise-end", "solution-end"}
INLINE = re.compile(
    r"""
    (?P<role>\{[a-zA-Z][\w:+-]*\}(?P<ticks>`+)(?P<content>.+?)(?P=ticks)(?!`))
  | (?P<code>(?P<tick>`+)(?!`).+?(?<!`)(?P=tick)(?!`))
  | (?P<display>\$\$.+?\$\$)(?P<label>[ ]*\([\w:-]+\))?
  | (?P<math>(?<![\\$])\$(?![\s$])[^$]+?(?<![\s\\])\$(?![\d$]))
  | (?P<environment>\\begin\{(?P<env>\w+\*?)\}.+?\\end\{(?P=env)\})
  | (?P<image>!\[(?P<alt>[^\]]*)\]\((?P<source>[^()\s]+)\))
  | (?P<empty>\[\]\((?P<bare>[^()\s]+)\))
  | (?P<link>\]\((?P<target>[^()\s]+)\))
  | (?P<attributes>(?<=[\])`])\{[.\#\w][^}\n]*\})
  | (?P<substitution>\{\{\s*(?P<key>.*?)\s*\}\})
    """,
    re.VERBOSE | re.DOTALL,
)
BLOCK_ATTRIBUTES = re.compile(r"^\{[.#][^}]*\}\s*$", re.MULTILINE)
DEFINITION = re.compile(r"^(?P<term>\S.*)\n(?:\n)?:[ \t]+(?P<text>.+(?:\n[ \t]+\S.*)*)", re.MULTILINE)
TITLED = re.compile(r"^(?P<text>.*?)\s*<(?P<target>[^<>]+)>$", re.DOTALL)


def task_words(kind: str, options: dict[str, Any]) -> str:
    """What a `{task}` says of its exercise, in one line."""
    difficulty, minutes, points = (str(options[name]) for name in ("difficulty", "minutes", "points"))
    name = {"predict": "Predict", "write": "Write", "bug": "Find the bug", "experiment": "Experiment"}[kind]
    return f"{name} · {difficulty} · {minutes} minutes · {points} points · you practise: {options['teaches']}"


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
        """`text` with its roles, links and pictures replaced; code and mathematics stay as they are."""

        def replace(match: re.Match[str]) -> str:
            here = line + text.count("\n", 0, match.start())
            if match["role"]:
                name = match["role"][1 : match["role"].index("}")]
                return self.role(name, match["content"].strip(), here)
            if match["image"]:
                return f"![{match['alt']}]({self.picture(match['source'], match['alt'], here)})"
            if match["empty"]:
                return f"[{self.title(match['bare'], here)}]({self.target(match['bare'], here)})"
            if match["link"]:
                return f"]({self.target(match['target'], here)})"
            if match["substitution"]:
                return self.substitution(match["key"], here)
            return match["display"] or ("" if match["attributes"] else match[0])

        return INLINE.sub(replace, text)

    def prose(self, text: str, line: int) -> str:
        return DEFINITION.sub(self._definition, BLOCK_ATTRIBUTES.sub("", self.inline(text, line)))

    @staticmethod
    def _definition(match: re.Match[str]) -> str:
        text = re.sub(r"\n[ \t]+", " ", match["text"])
        return f"- **{match['term'].strip()}**: {text}"

    def substitution(self, key: str, line: int) -> str:
        if key not in self.page.substitutions:
            raise self.error(line, f"unknown substitution {{{{{key}}}}}")
        return str(self.page.substitutions[key])

    # ── links ─────────────────────────────────────────────────────────────────────────────────────────────────

    def target(self, name: str, line: int) -> str:
        """The public address of what a link names: a label, a page, a file of the repository, or another site."""
        if re.match(r"^(https?|mailto):", name):
            return name
        if href := self.index.href(name.removeprefix("#")):
            return self.address.site + href
        path, _, anchor = name.partition("#")
        if path and path.removesuffix(".md") in self.index.pages:
            suffix = self.index.href(anchor) if anchor else f"{path.removesuffix('.md')}.html"
            if suffix:
                return self.address.site + suffix
        return self.address.blob(self.file(name, line))

    def file(self, name: str, line: int) -> str:
        """The path of a file, given relative to the page, from the root of the repository."""
        path = (self.page.path.parent / name).resolve()
        if not path.exists() or not path.is_relative_to(self.root.resolve()):
            raise self.error(line, f"unknown target {name!r}: no label, no page and no file")
        return path.relative_to(self.root.resolve()).as_posix()

    def title(self, name: str, line: int) -> str:
        """The words for a link that has none of its own."""
        if place := self.index.place(name.removeprefix("#")):
            if words := place.title or place.number:
                return self.inline(words, line)
        elif (page := name.removesuffix(".md")) in self.index.pages:
            return self.inline(self.index.pages[page].title, line)
        raise self.error(line, f"a link to {name!r} needs words of its own")

    def picture(self, source: str, alt: str, line: int) -> str:
        if not alt.strip():
            raise self.error(line, f"picture {source} without alt text")
        return source if source.startswith("https:") else self.address.raw(self.file(source, line))

    # ── roles ─────────────────────────────────────────────────────────────────────────────────────────────────

    def role(self, name: str, content: str, line: int) -> str:
        titled = TITLED.match(content)
        words, target = (titled["text"], titled["target"]) if titled else ("", content)
        if name in {"cite", "cite:p", "cite:t"}:
            return self.citations(content, name == "cite:t", line)
        if name in {"ref", "numref", "doc", "eq"}:
            return self.reference(name, words, target, line)
        simple: dict[str, Callable[[], str]] = {
            "math": lambda: f"${content}$",
            "term": lambda: words or content,
            "code": lambda: f"`{content}`",
            "abbr": lambda: re.sub(r"\s*\([^)]*\)$", "", content),
            "sub": lambda: f"<sub>{content}</sub>",
            "sup": lambda: f"<sup>{content}</sup>",
            "kbd": lambda: f"<kbd>{content}</kbd>",
        }
        if name not in simple:
            raise self.error(line, f"unknown role {{{name}}}")
        return simple[name]()

    def citations(self, keys: str, textual: bool, line: int) -> str:
        try:
            found = [self.index.citation(key.strip(), textual) for key in keys.split(",")]
        except KeyError as error:
            raise self.error(line, f"no entry {error} in the bibliography") from None
        return "; ".join(found) if textual else f"({'; '.join(found)})"

    def reference(self, name: str, words: str, target: str, line: int) -> str:
        place = self.index.place(target)
        if name == "doc":
            return f"[{words or self.title(target, line)}]({self.target(target, line)})"
        if place is None:
            raise self.error(line, f"unknown label {target!r}")
        if name in {"numref", "eq"} and not place.number:
            raise self.error(line, f"{target!r} has no number")
        if name == "eq":
            words = f"({place.number})"
        elif name == "numref":
            bare = place.number.split(" ")[-1]
            words = words.replace("%s", bare).replace("{number}", bare) or place.number
        return f"[{words or self.title(target, line)}]({self.target(target, line)})"

    # ── blocks ────────────────────────────────────────────────────────────────────────────────────────────────

    def render(self, page: list[Block]) -> str:
        """The Markdown of some blocks, without the code cells, which stand for themselves."""
        parts = [self.block(block) for block in page]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(part for part in parts if part is not None)).strip("\n")

    def block(self, block: Block) -> str | None:
        if block.kind == "text":
            return self.prose(block.text, block.line)
        if block.kind == "fence":
            fence = "````" if "```" in block.text else "```"
            return self._indented(f"{fence}{block.name}\n{block.text}\n{fence}", block.indent)
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
        if block.name in BOXES | QUOTES:
            return self.box(block)
        render = {
            "code-block": lambda block: f"```{block.argument}\n{block.text}\n```",
            "correspondence": self.correspondence,
            "exercise": self.exercise,
            "exercise-start": self.exercise,
            "figure": self.figure,
            "glossary": self.glossary,
            "image": self.figure,
            "list-table": self.list_table,
            "literalinclude": self.listing,
            "live-training": lambda _block: self.live("Train the model", "live-training"),
            "live-translator": lambda _block: self.live("Open the translator", "live-translator"),
            "math": self.math,
            "seeded-defects": lambda _block: defect_table.table(self.root, self.address),
            "rubric": self.body,
            "solution": self.solution,
            "solution-start": self.solution,
            "table": self.table,
            "task": self.task,
            "teaching-plan": lambda block: self.inline(teaching_plan.markdown(self.root), block.line),
        }.get(block.name)
        if render is None:
            raise self.error(block.line, f"unknown directive {{{block.name}}}")
        return render(block)

    def body(self, block: Block) -> str:
        return self.render(blocks(block.body, block.body_line))

    def heading(self, block: Block) -> str:
        number = self.index.number_of(self.page, block)
        title = self.inline(block.argument, block.line)
        return bold(f"{number} ({title})" if number and title else number or title)

    def box(self, block: Block) -> str:
        """A block quotation, headed by the title of the box or by its kind; a closed hint stays closed."""
        if block.name == "hint" and "dropdown" in str(block.options.get("class", "")):
            return f"<details>\n<summary>Hint</summary>\n\n{self.body(block)}\n\n</details>"
        arguments = block.name in {"admonition", "dropdown", "sidebar"}
        text = self.body(block)
        if not arguments and block.argument:
            text = f"{self.inline(block.argument, block.line)} {text}".strip()
        head = self.inline(block.argument, block.line) if arguments else block.name.capitalize()
        if block.name not in QUOTES:
            text = f"{bold('See also' if block.name == 'seealso' else head)}\n\n{text}"
        return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))

    def live(self, act: str, place: str) -> str:
        """What runs in the page cannot run in a notebook: a link to it."""
        return f"**[{act} on the book's site]({self.address.site}{self.page.name}.html#{place}).**"

    def correspondence(self, block: Block) -> str:
        rows = paper_table.load_rows(self.root / "workshop" / "lab" / "correspondence.py")
        return self.inline(paper_table.markdown(rows, self.address), block.line)

    def exercise(self, block: Block) -> str:
        heading = self.heading(block)
        return f"{heading}\n\n{self.body(block)}" if block.name == "exercise" else heading

    def solution(self, block: Block) -> str:
        place = self.index.place(block.argument)
        if place is None:
            raise self.error(block.line, f"a solution of the unknown exercise {block.argument!r}")
        heading = f"**Solution of {place.number or place.title}.**"
        return f"{heading}\n\n{self.body(block)}" if block.name == "solution" else heading

    def task(self, block: Block) -> str:
        return f"*{task_words(block.argument, block.options)}*"

    def figure(self, block: Block) -> str:
        described = drawings.description(self.page.path.parent / block.argument).replace("<", r"\<")
        alt = str(block.options.get("alt", described))
        picture = f"![{alt}]({self.picture(block.argument, alt, block.line)})"
        number = self.index.number_of(self.page, block)
        return f"{picture}\n\n*{number}.* {self.body(block)}" if number else picture

    def glossary(self, block: Block) -> str:
        items = re.sub(r"^(\S.*)\n[ \t]+(?=\S)(?!:)", r"\1\n: ", block.text, flags=re.MULTILINE)
        return self.prose(items, block.body_line)

    def math(self, block: Block) -> str:
        number = self.index.number_of(self.page, block)
        tag = f" \\tag{{{number}}}" if "label" in block.options and "\\tag" not in block.text else ""
        return f"$$\n{block.text.strip()}{tag}\n$$"

    def caption(self, block: Block) -> str:
        return f"{self.heading(block)}\n\n" if block.argument else ""

    def table(self, block: Block) -> str:
        return self.caption(block) + self.body(block)

    def list_table(self, block: Block) -> str:
        """A list of lists as a table of pipes; its first row is the head."""
        rows: list[list[str]] = []
        for line in block.body:
            if match := re.match(r"^\* -\s?(.*)$", line):
                rows.append([match[1]])
            elif match := re.match(r"^  -\s?(.*)$", line):
                rows[-1].append(match[1])
            elif line.strip():
                rows[-1][-1] += " " + line.strip()
        lines = [f"| {' | '.join(self._cell(cell, block.line) for cell in row)} |" for row in rows]
        return self.caption(block) + "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])

    def _cell(self, text: str, line: int) -> str:
        """A cell of a table: a bare | would end it, also inside mathematics."""
        text = re.sub(r"\$[^$]+\$", lambda m: m[0].replace(r"\|", r"\Vert ").replace("|", r"\vert "), text)
        return re.sub(r"(?<!\\)\|", r"\\|", self.inline(text.strip(), line))

    # ── listings ──────────────────────────────────────────────────────────────────────────────────────────────

    def source(self, block: Block) -> tuple[str, str]:
        """The path of an included file from the root, and the very lines that the page shows of it."""
        path = self.file(block.argument, block.line)
        options = {key: str(value) for key, value in block.options.items()}
        reader = LiteralIncludeReader(str(self.root / path), options, SimpleNamespace(source_encoding="utf-8"))  # type: ignore[arg-type]
        try:
            text, _ = reader.read()
        except (OSError, ValueError) as error:
            raise self.error(block.line, str(error)) from None
        return path, dedented(text)

    def listing(self, block: Block) -> str:
        path, text = self.source(block)
        caption = self.inline(str(block.options.get("caption", "")), block.line)
        words = f"{caption} (`{path}`)" if caption else f"`{path}`"
        language = block.options.get("language", "python" if path.endswith(".py") else "")
        return f"[{words}]({self.address.blob(path)}):\n\n```{language}\n{text}\n```"
