"""What a page needs to know of the whole book: where labels are, what they are called, which number they carry."""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from docutils.nodes import make_id
from pybtex.database import Entry, parse_file

from workshop.site.myst_blocks import TARGET, Block, PageError, blocks, split_front_matter, walk

HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$")
NUMBERED = {
    "code-cell": "Fig.",
    "figure": "Fig.",
    "exercise": "Exercise",
    "exercise-start": "Exercise",
    "table": "Table",
    "list-table": "Table",
}


@dataclass
class Page:
    """A chapter: its file, its front matter and its blocks."""

    path: Path
    blocks: list[Block]
    substitutions: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def title(self) -> str:
        for block in self.blocks:
            for line in block.body if block.kind == "text" else ():
                if match := HEADING.match(line):
                    return match[1]
        raise PageError(f"{self.path.name}:1: no title")


@dataclass
class Label:
    """A place that a page can point at."""

    page: str
    title: str = ""
    number: str = ""
    is_equation: bool = False


def read_page(path: Path) -> Page:
    lines = path.read_text("utf-8").splitlines()
    front, start = split_front_matter(lines)
    substitutions = (front.get("myst") or {}).get("substitutions") or {}
    return Page(path, blocks(lines[start:], start + 1), substitutions)


def pages_in_order(root: Path) -> list[Path]:
    """The Markdown files of the book in the order of _toc.yml; the API's pages are none."""

    def files(node: object) -> list[str]:
        if isinstance(node, list):
            return [name for item in node for name in files(item)]
        if isinstance(node, dict):
            own = [node[key] for key in ("root", "file") if key in node]
            return own + [name for key in ("parts", "chapters", "sections") for name in files(node.get(key, []))]
        return []

    names = files(yaml.safe_load((root / "_toc.yml").read_text("utf-8")))
    return [path for path in (root / f"{name}.md" for name in names) if path.exists()]


def _is_counted(block: Block) -> bool:
    """Whether the site gives this block a number."""
    if block.name == "figure":
        return bool(block.text.strip())
    if block.name == "code-cell":
        return bool(((block.options.get("mystnb") or {}).get("figure") or {}).get("caption"))
    if block.name in {"table", "list-table"}:
        return bool(block.argument)
    return block.name in NUMBERED and "nonumber" not in block.options


class Index:
    """Labels, numbers, titles and citations over all pages, in reading order."""

    def __init__(self, pages: list[Page], bibliography: Path | None = None):
        self.pages = {page.name: page for page in pages}
        self.labels: dict[str, Label] = {}
        self.numbers: dict[tuple[str, int], str] = {}  # page and line of a block → the number the site gives it
        self.entries = dict(parse_file(str(bibliography)).entries) if bibliography else {}
        self.counts: Counter[str] = Counter()
        for page in pages:
            self._read(page)

    def _read(self, page: Page) -> None:
        everything = walk(page.blocks)
        equations = 0
        for i, block in enumerate(everything):
            if block.kind == "target" and (match := TARGET.match(block.body[0])):
                self._add(match["label"], Label(page.name, self._heading_after(everything[i + 1 :])))
            elif block.kind == "directive":
                equations += block.name == "math" and "label" in block.options
                number = str(equations) if block.name == "math" else self._count(block)
                self._add_block(page, block, number)
        for label in re.findall(r"\$\$\s*\(([\w:-]+)\)", page.path.read_text("utf-8")):
            equations += 1
            self._add(label, Label(page.name, number=str(equations), is_equation=True))

    def _count(self, block: Block) -> str:
        if not _is_counted(block):
            return ""
        kind = NUMBERED[block.name]
        self.counts[kind] += 1
        return f"{kind} {self.counts[kind]}"

    def _add_block(self, page: Page, block: Block, number: str) -> None:
        if tag := re.search(r"\\tag\{([^}]*)\}", block.text if block.name == "math" else ""):
            number = tag[1]
        self.numbers[page.name, block.line] = number
        figure = (block.options.get("mystnb") or {}).get("figure") or {} if block.name == "code-cell" else {}
        for option in (block.options.get("label"), block.options.get("name"), figure.get("name")):
            if option:
                self._add(str(option), Label(page.name, block.argument, number, block.name == "math"))

    def _add(self, label: str, place: Label) -> None:
        self.labels[label.lower()] = place

    @staticmethod
    def _heading_after(following: list[Block]) -> str:
        block = next((block for block in following if block.kind != "target"), None)
        lines = block.body if block and block.kind == "text" else []
        first = next((line for line in lines if line.strip()), "")
        return match[1] if (match := HEADING.match(first)) else ""

    def number_of(self, page: Page, block: Block) -> str:
        return self.numbers.get((page.name, block.line), "")

    def place(self, label: str) -> Label | None:
        return self.labels.get(label.lower())

    def href(self, label: str) -> str | None:
        """The address of a label below the folder of chapters on the site."""
        if (place := self.place(label)) is None:
            return None
        anchor = f"equation-{make_id(label)}" if place.is_equation else make_id(label)
        return f"{place.page}.html#{anchor}"

    def citation(self, key: str, textual: bool) -> str:
        """Author and year of an entry, linked to the publication; KeyError for an unknown one."""
        entry = self.entries[key]
        year, url = entry.fields["year"], entry.fields.get("url") or f"https://doi.org/{entry.fields['doi']}"
        return f"[{self._authors(entry)} ({year})]({url})" if textual else f"[{self._authors(entry)}, {year}]({url})"

    @staticmethod
    def _authors(entry: Entry) -> str:
        names = [" ".join(author.prelast_names + author.last_names) for author in (entry.persons or {})["author"]]
        return names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else f"{names[0]} et al."
