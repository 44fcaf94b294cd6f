"""Join the printed chapters into one PDF: title page, contents, outline, links inside the file."""

import html
import io
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pypdf import PageObject, PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject

from workshop.site.pdf_structure import write_structure

FRONT = 2  # the title page and the contents


@dataclass
class Chapter:
    """A page of the book, where it stands, and its print."""

    file: str
    part: str = ""
    title: str = ""
    printed: bytes = field(default=b"", repr=False)
    first_page: int = 0  # counted from 0, as PDF readers do inside

    @property
    def name(self) -> str:
        return Path(self.file).name

    @cached_property
    def reader(self) -> PdfReader:
        return PdfReader(io.BytesIO(self.printed))

    @cached_property
    def length(self) -> int:
        """The pages of its print, without an empty one at the end."""
        pages = list(self.reader.pages)
        while len(pages) > 1 and self._is_empty(pages[-1]):
            pages.pop()
        return len(pages)

    def _is_empty(self, page: PageObject) -> bool:
        """Whether a page has nothing but its foot: the chapter's title and a number."""
        words, title = (re.sub(r"[\s\d]", "", text) for text in (page.extract_text(), self.title))
        return words in {"", title} and not page.images


STYLE = """<style>@page { size: A4; margin: 0 } * { box-sizing: border-box; margin: 0 }
body { font: 10.5pt/1.5 "DejaVu Sans", sans-serif; color: #1b2733 }
section { height: 297mm; padding: 24mm 22mm; position: relative; break-after: page; overflow: hidden }
h1 { font-size: 30pt; line-height: 1.2; margin-top: 70mm } .claim { font-size: 14pt; margin: 8mm 0 }
h2 { font-size: 18pt; margin-bottom: 4mm } h3 { font-size: 10pt; margin: 3mm 0 .5mm; color: #4a5a6a }
.row { display: flex; gap: 3mm; height: 5.6mm; line-height: 5.6mm } .row i { flex: 1; border-bottom: 1px dotted #8894a0;
margin-bottom: 1.4mm } .foot { position: absolute; bottom: 22mm; left: 22mm; right: 22mm; color: #4a5a6a }</style>"""


def front_matter(book: str, chapters: list[Chapter], home: str, licence: str) -> str:
    """The title page and the contents."""
    rows, part = [], ""
    for chapter in chapters:
        if chapter.part != part:
            part = chapter.part
            rows.append(f"<h3>{html.escape(part)}</h3>")
        number = chapter.first_page + 1
        rows.append(f'<div class="row"><span>{html.escape(chapter.title)}</span><i></i><span>{number}</span></div>')
    return (
        f"<html lang=en>{STYLE}<section><h1>{html.escape(book)}</h1>"
        "<p class=claim>Attention Is All You Need, explained, run, tested and trained</p>"
        f"<p class=foot>The book runs at {html.escape(home)}, where its charts answer and its notebooks open in Colab."
        f"<br>{html.escape(licence)}</p></section><section><h2>Contents</h2>{''.join(rows)}</section></html>"
    )


def once(title: str) -> str:
    """A title once: Chromium writes one twice that it moved to the next page."""
    half = len(title) // 2
    return title[:half] if title[:half] == title[half:] else title


def sections(chapter: Chapter) -> list[tuple[str, int]]:
    """Titles and pages of the sections under the chapter's title."""
    outline = next((item for item in chapter.reader.outline if isinstance(item, list)), [])
    titles = []
    for item in outline:
        if not isinstance(item, list) and (page := chapter.reader.get_destination_page_number(item)) is not None:
            titles.append((once(str(item.title).strip()), chapter.first_page + page))
    return titles


def write_outline(writer: Any, chapters: list[Chapter]) -> None:
    """Parts, chapters and sections, closed below the chapters; pypdf's decorator hides the types of this method."""
    part, parent = "", None
    for chapter in chapters:
        if chapter.part != part:
            part = chapter.part
            parent = writer.add_outline_item(part, chapter.first_page, bold=True)
        item = writer.add_outline_item(chapter.title, chapter.first_page, parent=parent, is_open=False)
        for title, page in sections(chapter):
            writer.add_outline_item(title, page, parent=item)


def keep_links_inside(writer: PdfWriter, chapters: list[Chapter], home: str) -> None:
    """Let a link to the front of another chapter lead to its page in this file."""
    first = {f"{home}{chapter.file}.html": chapter.first_page for chapter in chapters}
    for page in writer.pages:
        for reference in page.get("/Annots") or ():
            annotation = reference.get_object()
            action = annotation.get("/A", DictionaryObject()).get_object()
            target = first.get(str(action.get("/URI", "")))
            if target is not None:
                del annotation["/A"]
                where = writer.pages[target].indirect_reference
                annotation[NameObject("/Dest")] = ArrayObject([where, NameObject("/Fit")])


def joined(book: str, chapters: list[Chapter], front: bytes, home: str) -> tuple[bytes, int]:
    """The bytes of the whole book, and its number of pages."""
    writer = PdfWriter()
    writer.append(PdfReader(io.BytesIO(front)), pages=(0, FRONT), import_outline=False)
    for chapter in chapters:
        writer.append(chapter.reader, pages=(0, chapter.length), import_outline=False)
    write_outline(writer, chapters)
    keep_links_inside(writer, chapters, home)
    write_structure(writer, [(chapter.reader, chapter.first_page, chapter.length) for chapter in chapters])
    writer.add_metadata({"/Title": book, "/Subject": "Attention Is All You Need, explained, run, tested and trained"})
    writer.page_mode = "/UseOutlines"
    writer.compress_identical_objects()
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue(), len(writer.pages)
