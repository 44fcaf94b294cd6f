"""Make an EPUB of the built site, and offer it for download on the pages.

    make book
    .venv/bin/python -m workshop.site.make_epub

Needs Chromium or Chrome, as `make pdf` does. Each chapter is opened as a reader's browser would show it, in the light
scheme and without solutions. Its formulas become MathML, its charts and drawings pictures with their descriptions, and
what needs a mouse goes. Links between chapters stay inside the file; all others lead to the published site.

Sphinx's own EPUB would lack every chart, which only a script draws; it takes the HTML of cells and forms as it is,
which is no XHTML; its package does not say what readers with disabilities find, and its archive holds the time.
"""

import html
import json
import re
import time
import uuid
import zipfile
from dataclasses import dataclass, field
from itertools import groupby
from mimetypes import guess_type
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import yaml
from playwright.sync_api import BrowserContext, sync_playwright

from workshop.site.address import configured
from workshop.site.chromium import find_browser
from workshop.site.filled import filled
from workshop.site.make_pdf import built_site, chapters_in_order, offer_file, open_chapter

ROOT = Path(__file__).resolve().parents[2]
NAME = "the-executable-transformer.epub"
MARKER = "<!-- whole-book-epub -->"
EPUB = Path(__file__).with_name("epub")
CHAPTER = Path(__file__).with_name("epub_chapter.js").read_text("utf-8")
LINK = re.compile(r' href="([\w-]+\.xhtml)?#([^"]*)"')


@dataclass
class Drawn:
    """A chapter as XHTML, the ids in it, and its pictures."""

    name: str
    part: str
    title: str
    text: str
    ids: set[str]
    files: dict[str, bytes] = field(default_factory=dict)


def draw(context: BrowserContext, site: Path, file: str, part: str, pages: list[str], home: str) -> Drawn:
    """Open a chapter, wait until it is drawn, take pictures of what is drawn, and read the rest."""
    page, name = open_chapter(context, site, file), Path(file).name
    count = page.evaluate(f"{CHAPTER}.marked({json.dumps(home)})")
    files = {
        f"{name}-{number}.png": page.locator(f'[data-picture="{number}"]').screenshot(animations="disabled")
        for number in range(count)
    }
    given = {"pages": pages, "home": home, "pictures": [*files]}
    found: dict[str, Any] = page.evaluate(f"given => {CHAPTER}.chapter(given)", given)
    page.close()
    text = found["text"]
    for address in found["images"]:
        path = Path(unquote(urlparse(address).path))
        files[path.name] = path.read_bytes()
        text = text.replace(f'src="{html.escape(address)}"', f'src="{html.escape(path.name)}"')
    return Drawn(name, part, found["title"], text, set(found["ids"]), files)


def linked(chapter: Drawn, ids: dict[str, set[str]]) -> str:
    """The chapter's text, in which every link inside the book has a target."""

    def target(match: re.Match[str]) -> str:
        file, fragment = match[1] or "", unquote(html.unescape(match[2]))
        if fragment in ids[file.removesuffix(".xhtml") or chapter.name]:
            return f' href="{file}#{html.escape(fragment)}"'
        return f' href="{file}"' if file else ""

    return LINK.sub(target, chapter.text)


def contents(chapters: list[Drawn], book: str) -> str:
    """The navigation: parts, and their chapters."""
    parts = [(part, [*inside]) for part, inside in groupby(chapters, key=lambda one: one.part)]
    return filled("epub/contents.xhtml", title="Contents", book=book, parts=parts)


def packed(chapters: list[Drawn], about: dict[str, str], path: Path) -> None:
    """Write the file: the type first and bare, then the package, then what it lists."""
    ids = {one.name: one.ids for one in chapters}
    files = {"nav.xhtml": contents(chapters, about["title"]).encode(), "book.css": (EPUB / "book.css").read_bytes()}
    for one in chapters:
        files[f"{one.name}.xhtml"] = filled("epub/page.xhtml", title=one.title, body=linked(one, ids)).encode()
        files |= one.files
    listed = [(name, guess_type(name)[0]) for name in files]
    with_formulas = {f"{one.name}.xhtml" for one in chapters if "<math" in one.text}
    package = filled("epub/package.xml", about=about, files=listed, with_formulas=with_formulas)
    entries = {"mimetype": b"application/epub+zip"}
    entries["META-INF/container.xml"] = (EPUB / "container.xml").read_bytes()
    entries |= {"book/package.opf": package.encode(), **{f"book/{name}": data for name, data in files.items()}}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            how = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), data, how)  # says no time: the same site gives the same bytes


def description(root: Path = ROOT) -> dict[str, str]:
    """What the file says of itself."""
    config = yaml.safe_load((root / "_config.yml").read_text("utf-8"))
    citation = yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))
    home = configured(root).home
    return {
        "identifier": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, home)}",
        "title": config["title"],
        "author": citation["authors"][0]["name"],
        "licence": config["html"]["extra_footer"].strip(),
        "home": home,
        "day": str(citation["date-released"]),
    }


def make(site: Path, toc: Path, about: dict[str, str], path: Path) -> int:
    """Write the EPUB of a site; the number of its chapters."""
    table = chapters_in_order(toc)
    pages = [chapter.name for chapter in table]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser())
        context = browser.new_context(viewport={"width": 794, "height": 1123}, device_scale_factor=2)
        chapters = [draw(context, site, one.file, one.part, pages, about["home"]) for one in table]
        browser.close()
    packed(chapters, about, path)
    return len(chapters)


def main() -> None:
    site = built_site(__doc__ or "")
    start = time.monotonic()
    chapters = make(site, ROOT / "_toc.yml", description(), site / NAME)
    offer_file(site, NAME, MARKER, "Whole book (.epub)", 'Or as an <a href="{address}" download>e-book (EPUB)</a>.')
    size = (site / NAME).stat().st_size / 1e6
    print(f"{NAME}: {chapters} chapters, {size:.1f} MB, {time.monotonic() - start:.0f} s.")


if __name__ == "__main__":
    main()
