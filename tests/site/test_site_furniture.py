"""The site around its chapters: descriptions, sitemap, 404, downloads, search and the whole book.

Needs what conftest.py says, and `make pdf` for the tests of the PDF.
"""

import html
import re
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser import API, CHAPTERS, ROOT, Links
from needs import unavailable
from PIL import Image

from workshop.site.address import configured

pytestmark = pytest.mark.slow

HOME = configured().home
PDF = "the-executable-transformer.pdf"
META = re.compile(r'<meta (?:name|property)="([^"]+)" content="([^"]*)"')


def metadata(path: Path) -> dict[str, str]:
    return {name: html.unescape(value) for name, value in META.findall(path.read_text("utf-8"))}


# ── What others say of a page ─────────────────────────────────────────────────────────────────────────────────


def test_every_page_describes_itself_in_its_own_words(site: Path) -> None:
    names = [*CHAPTERS, *API, "search.html", "genindex.html", "404.html"]
    descriptions = {name: metadata(site / name).get("description", "") for name in names}
    assert {name: text for name, text in descriptions.items() if not 50 <= len(text) <= 160} == {}
    assert len(set(descriptions.values())) == len(names)
    assert [text for text in descriptions.values() if re.search(r"[\\{}$]", text)] == [], "a formula as TeX"


def test_a_link_to_a_page_shows_its_picture(site: Path) -> None:
    for name in [*CHAPTERS, *API, "index.html"]:
        known = metadata(site / name)
        address = HOME + (name if name != "index.html" else "book/index.html")
        assert f'<link rel="canonical" href="{address}"' in (site / name).read_text("utf-8"), name
        assert known["og:url"] == address
        assert known["twitter:card"] == "summary_large_image"
        assert known["og:description"] == known["description"]
        assert known["og:image"] == f"{HOME}_static/social.png"
    picture = site / "_static" / "social.png"
    with Image.open(picture) as opened:
        assert (opened.format, opened.size) == ("PNG", (1200, 630))
    assert picture.stat().st_size <= 60_000


def test_a_link_to_a_file_of_the_repository_finds_it(site: Path) -> None:
    start = re.escape(configured().blob(""))
    linked = {
        (name, file)
        for name in [*CHAPTERS, *API]
        for file in re.findall(rf'href="{start}([^"#]+)', (site / name).read_text("utf-8"))
    }
    assert len(linked) > 50
    assert [(name, file) for name, file in sorted(linked) if not (ROOT / file).exists()] == []


def test_the_sitemap_lists_every_page(site: Path) -> None:
    tree = xml.etree.ElementTree.parse(site / "sitemap.xml")
    addresses = [place.text for place in tree.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")]
    assert addresses == [HOME + name for name in CHAPTERS + API]
    assert f"Sitemap: {HOME}sitemap.xml" in (site / "robots.txt").read_text("utf-8")


def test_the_page_for_lost_readers_works_at_any_depth(site: Path) -> None:
    links = Links()
    links.feed((site / "404.html").read_text("utf-8"))
    start = urlsplit(HOME).path
    assert [target for target in links.targets if not target.startswith(start)] == []
    files = {target.removeprefix(start) for target in links.targets}
    assert {*CHAPTERS, *API, "search.html"} <= files
    assert [file for file in files if not (site / file).is_file()] == []


# ── Downloads ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_page_brings_its_source_with_the_solutions(site: Path) -> None:
    assert not (site / "_sources").exists()
    assert [path.name for path in site.glob("book/*.html") if "_sources/" in path.read_text("utf-8")] == []


def test_every_chapter_offers_its_notebook(site: Path) -> None:
    for name in CHAPTERS:
        linked = re.findall(r'\bhref="([^"]*\.ipynb)"', (site / name).read_text("utf-8"))
        offered = [target for target in linked if "//" not in target]
        assert offered == [f"../_downloads/notebooks/{Path(name).stem}.ipynb"], name
        copy = ((site / name).parent / offered[0]).resolve().read_bytes()
        assert copy == (ROOT / "notebooks" / f"{Path(name).stem}.ipynb").read_bytes()


@pytest.fixture(scope="module")
def pdf(site: Path):
    if not (site / PDF).exists():
        unavailable("the book is not printed: run `make pdf` after `make book`")
    import pypdf

    return pypdf.PdfReader(site / PDF)


def test_the_printed_book_has_every_chapter_in_its_outline(site: Path, pdf) -> None:
    def titles(outline: list) -> list[str]:
        return [title for item in outline for title in (titles(item) if isinstance(item, list) else [item.title])]

    found = titles(pdf.outline)
    for name in CHAPTERS:
        heading = re.search(r"<h1>(.*?)<a class=\"headerlink\"", (site / name).read_text("utf-8"))
        assert heading is not None
        assert html.unescape(re.sub(r"<[^>]+>", "", heading[1])).strip() in found
    assert len(found) > 3 * len(CHAPTERS), "no sections"
    assert len(pdf.pages) > len(CHAPTERS)


def test_the_printed_book_has_no_empty_pages_and_numbers_them(pdf) -> None:
    pages = list(pdf.pages)
    parts = [part for part in pdf.outline if isinstance(part, list)]
    titles = {re.sub(r"[\s\d]", "", item.title) for part in parts for item in part if not isinstance(item, list)}
    few = [page for page in pages[2:] if len(re.findall(rb"\b(?:Tj|TJ|Do)\b", page.get_contents().get_data())) < 100]
    bare = [page for page in few if not page.images]  # a picture may fill a page
    assert not titles & {re.sub(r"[\s\d]", "", page.extract_text()) for page in bare}, "a page with its foot alone"
    for number in range(3, len(pages), 30):  # reading a page takes half a second
        assert pages[number - 1].extract_text().startswith(str(number))


def elements(element: Any, levels: int = 99) -> Iterator[Any]:
    """An element of a PDF's structure and what is below it, with the marks of content."""
    element = element.get_object()
    if isinstance(element, dict):
        yield element
        kids = element.get("/K", []) if levels else []
        for kid in kids if isinstance(kids, list) else [kids]:
            yield from elements(kid, levels - 1)


def test_the_printed_book_has_its_structure_with_each_title_on_its_chapters_page(pdf) -> None:
    catalog = pdf.trailer["/Root"]
    assert (catalog["/MarkInfo"]["/Marked"].value, catalog["/Lang"]) == (True, "en")
    tree = catalog["/StructTreeRoot"]
    titles = [
        next(pdf.get_page_number(part["/Pg"].get_object()) for part in elements(heading) if "/Pg" in part)
        for heading in elements(tree["/K"], levels=5)  # below are 100,000 words
        if heading.get("/S") == "/H1"
    ]
    parts = [part for part in pdf.outline if isinstance(part, list)]
    chapters = [item for part in parts for item in part if not isinstance(item, list) and item.title[0].isdecimal()]
    assert len(chapters) > 20
    assert set(titles) >= {pdf.get_destination_page_number(item) for item in chapters}


def printed(pdf, title: str, following: str) -> Iterator[str]:
    """The texts of the printed pages of a chapter."""
    places = [item for part in pdf.outline if isinstance(part, list) for item in part if not isinstance(item, list)]
    first, last = (
        next(pdf.get_destination_page_number(item) for item in places if item.title.split(". ")[-1] == one)
        for one in (title, following)
    )
    return (pdf.pages[number].extract_text() for number in range(first, last))


def test_the_printed_book_holds_folded_listings_and_exercises_and_no_solutions(pdf) -> None:
    assert any("def state_bytes" in text for text in printed(pdf, "Training on a GPU", "Common mistakes"))
    text = "\n".join(printed(pdf, "Masks", "The encoder and the decoder"))
    assert len(re.findall(r"^Exercise \d+", text, re.MULTILINE)) >= 3
    assert not re.search(r"^Solution to ", text, re.MULTILINE)


def test_the_whole_book_is_offered_where_it_exists(site: Path) -> None:
    pages = CHAPTERS + API
    offers = [name for name in pages if f'href="../{PDF}"' in (site / name).read_text("utf-8")]
    assert offers == (pages if (site / PDF).exists() else [])
