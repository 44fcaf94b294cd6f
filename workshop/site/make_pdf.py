"""Print the built site as one PDF, and offer it for download on the pages.

    make book pdf

Needs a Chromium or Chrome of version 131 or newer, which prints page numbers by CSS. Each chapter is opened as a
reader's browser would show it, in the light scheme and without solutions; then all stand in one page, which is printed
once, behind a title page and the contents. So links between chapters stay inside the file, and Chromium writes its
structure for screen readers; all other links lead to the published site. Sphinx's own way to a PDF is LaTeX: it needs
gigabytes of TeX, has no place for charts that a script draws, and tags nothing for screen readers.
"""

import argparse
import io
import json
import logging
import re
import time
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import yaml
from playwright.sync_api import BrowserContext, Page, PdfMargins, sync_playwright
from pypdf import PdfReader, PdfWriter

from workshop.site.address import configured
from workshop.site.book_weight import pages_of
from workshop.site.chromium import SETTLED, find_browser
from workshop.site.filled import filled

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
NAME = "the-executable-transformer.pdf"
MARKER = "<!-- whole-book-pdf -->"
ICON = '<span class="btn__icon-container"><i class="fas fa-download" aria-hidden="true"></i></span>'
MENU = re.compile(r'(<button onclick="window\.print\(\)".*?</button>\s*</li>)', re.DOTALL)
MARGIN: PdfMargins = {"top": "18mm", "bottom": "20mm", "left": "17mm", "right": "17mm"}
CLAIM = "Attention Is All You Need, explained, run, tested and trained"
FRONT = 2  # pages before the first chapter: the title and the contents
# Below every page: the chapter's title and the number of the page in the whole book.
FOOT = """@page {{ font: 8pt "DejaVu Sans", sans-serif; color: #4a5a6a; @bottom-right {{ content: counter(page) }} }}
html {{ counter-reset: page {before} }} body {{ page: index }}
"""
CHAPTER_FOOT = "article.{name} {{ page: {name} }} @page {name} {{ @bottom-left {{ content: {title} }} }}\n"
CHAPTERS = Path(__file__).with_name("pdf_chapters.js").read_text("utf-8")


@dataclass
class Chapter:
    """A page of the book, and where it stands."""

    file: str
    part: str = ""
    title: str = ""
    page: int = 0  # of the whole book, from 0

    @property
    def name(self) -> str:
        return Path(self.file).name


def chapters_in_order(toc: Path) -> list[Chapter]:
    """All pages but those of the API, which nobody reads from end to end."""
    table = yaml.safe_load(toc.read_text("utf-8"))
    parts = [(part["caption"], chapter["file"]) for part in table["parts"] for chapter in part["chapters"]]
    return [Chapter(table["root"]), *(Chapter(file, part) for part, file in parts if not file.startswith("book/api"))]


def open_chapter(context: BrowserContext, site: Path, file: str) -> Page:
    """A chapter in the light scheme, as soon as it is drawn."""
    page = context.new_page()
    page.add_init_script("for (const key of ['mode', 'theme']) localStorage.setItem(key, 'light');")
    page.emulate_media(media="print", color_scheme="light")
    page.goto((site / f"{file}.html").as_uri(), wait_until="load", timeout=120_000)
    page.wait_for_function(SETTLED, timeout=120_000)
    return page


def print_chapters(context: BrowserContext, site: Path, chapters: list[Chapter], home: str) -> bytes:
    """All chapters in one print, their titles noted."""
    names, articles, styles = [chapter.name for chapter in chapters], [], []
    for chapter in chapters:
        page = open_chapter(context, site, chapter.file)
        taken = page.evaluate(f"given => {CHAPTERS}.take(given)", [chapter.name, names, f"{site.as_uri()}/", home])
        chapter.title = taken["title"]
        articles.append(taken["html"])
        title = json.dumps(chapter.title, ensure_ascii=False)
        styles.append(CHAPTER_FOOT.format(name=chapter.name, title=title))
        page.close()
    page = open_chapter(context, site, chapters[0].file)
    page.evaluate(f"given => {CHAPTERS}.put(given)", [articles, FOOT.format(before=FRONT) + "\n".join(styles)])
    return page.pdf(format="A4", margin=MARGIN, print_background=True, outline=True, tagged=True)


def print_front(context: BrowserContext, text: str) -> bytes:
    """Print the front matter, edge to edge."""
    page = context.new_page()
    page.set_content(text)
    data = page.pdf(prefer_css_page_size=True, print_background=True)
    page.close()
    return data


def write_outline(writer: Any, parts: list[tuple[str, list[Chapter]]], printed: PdfReader) -> None:
    """Parts, chapters and sections, closed below the chapters; pypdf's decorator hides the types of this method."""
    sections = [item if isinstance(item, list) else [] for item in [*printed.outline[1:], None]]
    below = iter(found for item, found in zip(printed.outline, sections, strict=True) if not isinstance(item, list))
    for part, chapters in parts:
        parent = writer.add_outline_item(title=part, page_number=chapters[0].page, bold=True) if part else None
        for chapter in chapters:
            item = writer.add_outline_item(title=chapter.title, page_number=chapter.page, parent=parent, is_open=False)
            for section in (one for one in next(below) if not isinstance(one, list)):
                number = FRONT + (printed.get_destination_page_number(section) or 0)
                writer.add_outline_item(title=once(str(section.title).strip()), page_number=number, parent=item)


def once(title: str) -> str:
    """A title once: Chromium writes one twice that it moved to the next page."""
    half = len(title) // 2
    return title[:half] if title[:half] == title[half:] else title


def print_book(site: Path) -> tuple[bytes, int]:
    """The whole book and its number of pages."""
    logging.getLogger("pypdf").setLevel("ERROR")  # it warns that Chromium's list of objects is longer than it says
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    book, licence, home = config["title"], config["html"]["extra_footer"].strip(), configured().home
    chapters = chapters_in_order(ROOT / "_toc.yml")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser())
        context = browser.new_context(viewport={"width": 665, "height": 980})  # an A4 page within its margins
        printed = PdfReader(io.BytesIO(print_chapters(context, site, chapters, home)))
        titles = [item for item in printed.outline if not isinstance(item, list)]
        for chapter, title in zip(chapters, titles, strict=True):
            chapter.page = FRONT + (printed.get_destination_page_number(title) or 0)
        parts = [(part, [*inside]) for part, inside in groupby(chapters, attrgetter("part"))]
        text = filled("pdf_front.html", book=book, claim=CLAIM, home=home, licence=licence, parts=parts)
        front = PdfReader(io.BytesIO(print_front(context, text)))
        browser.close()
    writer = PdfWriter(clone_from=printed)
    for number in reversed(range(FRONT)):
        writer.insert_page(front.pages[number], 0)
    del writer.root_object["/Outlines"]  # Chromium's, which knows no parts
    write_outline(writer, parts, printed)
    writer.add_metadata({"/Title": book, "/Subject": CLAIM})
    writer.page_mode = "/UseOutlines"
    writer.compress_identical_objects()
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue(), len(writer.pages)


def offer_file(site: Path, name: str, marker: str, label: str, words: str) -> None:
    """Put the link to a file into the menu of every page, and words with it beside the first door of the front page."""
    for file in pages_of(site):
        page = file.read_text("utf-8")
        up = "../" if file.parent != site else ""
        link = f'<a class="btn btn-sm dropdown-item" href="{up}{name}" download>{ICON}{label}</a>'
        offered = MENU.sub(rf"\1<li>{link}</li>", page)
        offered = offered.replace(marker, words.format(address=f"{up}{name}"))
        if name not in page and offered != page:
            file.write_text(offered, "utf-8")


def built_site(about: str) -> Path:
    """The site that `make book` built, for a command that takes no options."""
    argparse.ArgumentParser(description=about.splitlines()[0]).parse_args()
    if not (SITE / "index.html").exists():
        raise SystemExit(f"{SITE} holds no site: run `make book` first")
    return SITE


def main() -> None:
    site = built_site(__doc__ or "")
    start = time.monotonic()
    data, pages = print_book(site)
    (site / NAME).write_bytes(data)
    offer_file(site, NAME, MARKER, "Whole book (.pdf)", 'Or as a <a href="{address}" download>book to print (PDF)</a>.')
    print(f"{NAME}: {pages} pages, {len(data) / 1e6:.1f} MB, {time.monotonic() - start:.0f} s.")


if __name__ == "__main__":
    main()
