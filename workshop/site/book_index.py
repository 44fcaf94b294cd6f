"""What a page needs to know of the whole book: where labels are, what they are called, which number they carry."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import yaml
from docutils.nodes import make_id
from pybtex.database import Entry, parse_file

from workshop.site.myst_blocks import Block, PageError, blocks, walk

HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$")
NUMBERED = {"figure": "Fig.", "exercise-start": "Exercise"}


@dataclass
class Page:
    """A chapter: its file, its front matter and its blocks."""

    path: Path
    blocks: list[Block]

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

    @property
    def box(self) -> Block:
        """The box at the head of a chapter: its question, and for whom it is."""
        return next(block for block in self.blocks if "question" in str(block.options.get("class", "")))

    def _with_starts(self, *kinds: str) -> Iterator[tuple[Block | None, Block]]:
        """Each block behind the `KIND-start` up to whose `KIND-end` it stands."""
        start = None
        for block in self.blocks:
            start = block if block.name in {f"{kind}-start" for kind in kinds} else start
            yield start, block
            start = None if start and block.name == start.name.replace("start", "end") else start
        if start:
            raise PageError(f"{self.path.name}:{start.line}: no {start.name.replace('start', 'end')}")

    def outside(self, *kinds: str) -> list[Block]:
        """The blocks that stand in no `KIND-start` … `KIND-end`, such as a solution."""
        return [block for start, block in self._with_starts(*kinds) if start is None]

    def inside(self, kind: str) -> list[tuple[Block, list[Block]]]:
        """Each `KIND-start` with the blocks up to its `KIND-end`."""
        groups = groupby(self._with_starts(kind), key=itemgetter(0))
        return [(start, [block for _, block in group][1:-1]) for start, group in groups if start]


@dataclass
class Label:
    """A place that a page can point at."""

    page: str
    number: str = ""


def read_page(path: Path) -> Page:
    return Page(path, blocks(path.read_text("utf-8").splitlines()))


def parts_of_book(root: Path) -> list[tuple[str, list[str]]]:
    """The parts in the order of _toc.yml: the caption, and the paths of the pages without their ending."""
    parts = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))["parts"]
    return [(part["caption"], [chapter["file"] for chapter in part["chapters"]]) for part in parts]


def pages_in_order(root: Path) -> list[Path]:
    """The Markdown files of the book, the front page first; the pages of the API are none."""
    front = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))["root"]
    names = [front, *(name for _, names in parts_of_book(root) for name in names)]
    return [path for path in (root / f"{name}.md" for name in names) if path.exists()]


class Index:
    """Labels, numbers and citations over all pages, in reading order."""

    def __init__(self, pages: list[Page], bibliography: Path | None = None):
        self.pages = {page.name: page for page in pages}
        self.labels: dict[str, Label] = {}
        self.numbers: dict[tuple[str, int], str] = {}  # page and line of a block → the number the site gives it
        self.entries = dict(parse_file(str(bibliography)).entries) if bibliography else {}
        self.counts: Counter[str] = Counter()
        for page in pages:
            self._read(page)

    def _read(self, page: Page) -> None:
        for block in walk(page.blocks):
            if block.kind == "target":
                self.labels[block.name.lower()] = Label(page.name)
            elif (block.options.get("mystnb") or {}).get("figure"):
                raise PageError(f"{page.path.name}:{block.line}: a cell with a caption is not known in a notebook")
            elif self._is_counted(block):
                kind = NUMBERED[block.name]
                self.counts[kind] += 1
                number = self.numbers[page.name, block.line] = f"{kind} {self.counts[kind]}"
                for option in (block.options.get("label"), block.options.get("name")):
                    if option:
                        self.labels[str(option).lower()] = Label(page.name, number)

    @staticmethod
    def _is_counted(block: Block) -> bool:
        """Whether the site gives this block a number."""
        has_words = block.name != "figure" or block.text.strip()
        return bool(block.name in NUMBERED and "nonumber" not in block.options and has_words)

    def number_of(self, page: Page, block: Block) -> str:
        return self.numbers.get((page.name, block.line), "")

    def href(self, label: str) -> str | None:
        """The address of a label below the folder of chapters on the site."""
        place = self.labels.get(label.lower())
        return place and f"{place.page}.html#{make_id(label)}"

    def citation(self, key: str, textual: bool) -> str:
        """Author and year of an entry, linked to the publication; KeyError for an unknown one."""
        entry = self.entries[key]
        year, url = entry.fields["year"], entry.fields.get("url") or f"https://doi.org/{entry.fields['doi']}"
        return f"[{self._authors(entry)} ({year})]({url})" if textual else f"[{self._authors(entry)}, {year}]({url})"

    @staticmethod
    def _authors(entry: Entry) -> str:
        names = [" ".join(author.prelast_names + author.last_names) for author in (entry.persons or {})["author"]]
        return names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else f"{names[0]} et al."
