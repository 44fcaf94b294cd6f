"""Make the slides of a lecture from the chapters: one deck for each part of the book.

    python -m workshop.site.make_slides            after `make book`; writes _build/slides/

A chapter gives its question, its numbered equations, its drawings, its figures with the chart's own controls, the
exercises that ask for a prediction, and its three lines to take away. Each slide has notes for the speaker, such as the
words before a figure, and minutes: two, or those of the prediction; no lecture has been timed. A deck is a page of
reveal.js; everything it needs lies beside it, so it runs without a network. Sphinx has no builder of slides; what is
done here is the choice of what to show, which no builder could make.
"""

import argparse
import base64
import html
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbformat.notebooknode import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from workshop.course.assignment_papers import with_code
from workshop.course.exercises import exercises_of
from workshop.site.book_charts import altair_spec, chart_html
from workshop.site.book_index import HEADING, Page, parts_of_book
from workshop.site.filled import filled
from workshop.site.formulas import formula_html
from workshop.site.myst_blocks import Block
from workshop.site.plain_markdown import Plain, drawn, whole_book

ROOT = Path(__file__).resolve().parents[2]
EXECUTED = ROOT / "_build" / "jupyter_execute" / "book"
DECK = Path(__file__).with_name("deck")
VENDOR = ROOT / "book" / "_static" / "vendor"
NOT_LECTURED = {"Front matter", "Appendices"}
BEFORE = "first_steps"  # front matter, but longer courses begin with it: it opens the first deck
VOTE = "Let everybody write down an answer, then vote, then run it. On the page the answer stands folded underneath."
ASK = "Ask what the room sees here before you say it."
RECALL = "Close the book: who can say each line in other words?"
EQUATION = re.compile(r"\$\$.*?\\tag\{.*?\$\$", re.DOTALL)


@dataclass
class Slide:
    """Markdown of one slide, and what the speaker may say."""

    text: str
    notes: str
    minutes: int = 2


def parts() -> list[tuple[str, list[str]]]:
    """The parts of the book that are lectured: caption and names of the chapters."""
    parts = [(caption, names) for caption, names in parts_of_book(ROOT) if caption not in NOT_LECTURED]
    decks = [(caption, [Path(name).stem for name in names]) for caption, names in parts]
    decks[0][1].insert(0, BEFORE)
    return decks


def image(alt: str, kind: str, data: str) -> str:
    """A picture inside the page, from its bytes in base64."""
    return f'<img alt="{html.escape(alt)}" src="data:image/{kind};base64,{data}">'


def drawing(path: Path) -> str:
    """A drawing of the book, with its own description."""
    return image(drawn(path), "svg+xml", base64.b64encode(path.read_bytes()).decode())


def figure(cell: NotebookNode) -> str:
    """The picture or chart that a cell drew, as HTML in one line; nothing if it drew none."""
    alt = str(cell.metadata.get("mystnb", {}).get("image", {}).get("alt", ""))
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if spec := altair_spec("".join(data.get("text/html", ""))):
            return chart_html(spec).replace("\n", " ")
        if "image/svg+xml" in data:
            text = "".join(data["image/svg+xml"])
            return image(alt, "svg+xml", base64.b64encode(text.encode()).decode())
        if "image/png" in data:
            return image(alt, "png", "".join(data["image/png"]).replace("\n", ""))
    return ""


class Lecture:
    """The slides of one chapter."""

    def __init__(self, page: Page, plain: Plain, executed: NotebookNode):
        self.page, self.plain = page, plain
        self.cells = {cell.source.strip("\n"): cell for cell in executed.cells}
        self.heading, self.words = page.title, ""
        self.slides: list[Slide] = []

    def executed(self, block: Block) -> NotebookNode:
        """The executed cell with this code."""
        if cell := self.cells.get(block.text.strip("\n")):
            return cell
        raise ValueError(f"{self.page.path.name}:{block.line}: not as it was executed; run `make book` again")

    def make(self) -> list[Slide]:
        self.slides.append(self.opening())
        for block in self.page.outside("exercise", "solution"):
            if block.name == "figure":
                self.add(self.heading, drawing(self.page.path.parent / block.argument), self.words)
            elif block.name == "code-cell" and (picture := figure(self.executed(block))):
                self.add(self.heading, picture, self.words)
            elif block.kind == "text" and "## To take away" not in block.text:
                self.read(block)
        for one in (exercise for exercise in exercises_of(self.page) if exercise.kind == "predict"):
            # A vote in the room before anything runs.
            title = f"Predict: {self.plain.inline(one.title, one.line)}"
            self.add(title, with_code(self.plain, one.statement), VOTE, one.minutes)
        return [*self.slides, self.ending()]

    def opening(self) -> Slide:
        """The chapter's question, and what one will be able to do."""
        box = self.page.box
        question = self.plain.inline(box.argument, box.line)
        ability, _, first = self.plain.inline(box.text, box.line).partition("**Know first:**")
        text = f"# {self.plain.inline(self.page.title, 1)}\n\n**{question}**\n\n{ability.strip()}"
        return Slide(text, f"Who listens knows: {first.split('**Time:**')[0].strip()}")

    def read(self, block: Block) -> None:
        """Keep heading and words for the figure that follows; show the paper's numbered equations at once."""
        text = self.plain.inline(block.text, block.line)
        for piece in re.split(r"\n\s*\n", text):
            if match := HEADING.match(piece.strip()):
                self.heading = match[1]
            elif equation := EQUATION.search(piece):
                self.add(self.heading, equation[0], self.words)
            elif piece.strip():
                self.words = piece.strip()

    def add(self, heading: str, body: str, notes: str, minutes: int = 2) -> None:
        where = f'<p class="where">{html.escape(self.page.title)}</p>'
        self.slides.append(Slide(f"{where}\n\n## {heading}\n\n{body}", notes or ASK, minutes=minutes))

    def ending(self) -> Slide:
        text = self.page.path.read_text("utf-8")
        lines = text[text.index("## To take away") :].split("**Read on.**")[0]
        return Slide(self.plain.inline(lines.strip(), 1), RECALL)


def coloured(code: str, language: str, _attributes: str) -> str:
    """A listing with its colours."""
    formatter = HtmlFormatter(noclasses=True, nobackground=True, nowrap=True)
    return highlight(code, get_lexer_by_name(language or "text"), formatter)


MARKDOWN = MarkdownIt("commonmark", {"html": True, "highlight": coloured}).enable("table")
MARKDOWN.use(dollarmath_plugin, double_inline=True, renderer=lambda tex, how: formula_html(tex, how["display_mode"]))


def deck(caption: str, lectures: list[list[Slide]]) -> str:
    """The page of a part: what it holds, then a stack of slides for each chapter."""
    names = [own[0].text.splitlines()[0].removeprefix("# ") for own in lectures]
    chapters = [f"- {name} ({minutes(own)} minutes)" for name, own in zip(names, lectures, strict=True)]
    text = f"# {caption}\n\nThe Executable Transformer\n\n" + "\n".join(chapters)
    title = Slide(text, "The minutes of each chapter are the sums of its slides'. S opens this view.")
    return filled("deck/deck.html", caption=caption, stacks=[[title], *lectures], markdown=MARKDOWN.render)


def minutes(slides: list[Slide]) -> int:
    return sum(slide.minutes for slide in slides)


def copy_assets(folder: Path) -> None:
    """Put what a deck loads beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [path for path in (*DECK.glob("slides.*"), *(DECK / "vendor").iterdir()) if path.suffix in {".css", ".js"}]
    for source in [*files, *VENDOR.glob("vega*.js"), VENDOR.parent / "fonts" / "stix-two-math.woff"]:
        shutil.copy(source, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "_build" / "slides", help="the folder to write")
    out = parser.parse_args().out
    if not EXECUTED.exists():
        raise SystemExit(f"{EXECUTED} is not there: run `make book` first, which executes the pages")
    book = whole_book(ROOT)
    copy_assets(out / "assets")
    for number, (caption, names) in enumerate(parts(), 1):
        lectures = []
        for plain in (book[name] for name in names):
            executed = nbformat.read(EXECUTED / f"{plain.page.name}.ipynb", 4)
            lectures.append(Lecture(plain.page, plain, executed).make())
        path = out / f"part-{number}.slides.html"
        path.write_text(deck(caption, lectures), "utf-8")
        length = f"{sum(map(len, lectures)) + 1} slides, about {sum(map(minutes, lectures)) + 2} minutes"
        print(f"{path.name}: {caption}, {length}")


if __name__ == "__main__":
    main()
