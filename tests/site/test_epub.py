"""The EPUB: what becomes of a page, and whether epubcheck finds the file valid.

Needs Chromium. epubcheck judges where it is installed (TRANSFORMER_LIB_REQUIRE_EPUBCHECK=1: it must be).
"""

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest
from browser import ROOT, SITE
from needs import unavailable

from workshop.site import make_epub
from workshop.site.chromium import chromium
from workshop.site.formulas import formula_html

HTML, MATHML = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/1998/Math/MathML}"
NUMBERED = formula_html(r"y = \sqrt{x} \tag{7}", display=True)
PAGE = f"""<!doctype html><html lang="en"><head><title>x</title></head><body>
<nav><p>menu</p></nav><article>
<h1>Heads &amp; masks<a class="headerlink" href="#x">#</a></h1><p class="report"><a href="https://x.org">Report</a></p>
<p id="here">Read <a href="b.html#there">this</a>, <a href="b.html#nowhere">that</a>, <a href="#lost">no</a>,
<a href="api.html#f">f</a>, <a href="../_downloads/x.csv">x</a>.</p><p id="here">Twice.</p>
<p>So {formula_html("x_1 < 2")}.</p>{NUMBERED}
<svg xmlns="http://www.w3.org/2000/svg" width="90" height="30"><title>A box</title><desc>It is red.</desc>
<rect width="90" height="30" fill="red"/></svg>
<div class="vega-chart"><script type="application/json">{{}}</script><div aria-label="Two bars.">
<svg class="marks" width="60" height="40"><rect width="30" height="40"/></svg></div><form><input></form></div>
<details class="hide"><summary>Show</summary><pre>import hidden</pre></details>
<details class="dropdown"><summary>Hint</summary><p>Look up.</p></details>
<div class="admonition solution"><p>42</p></div><div class="live-training"><button>Go</button></div>
<pre>a &lt; b
    c</pre></article><script>var x = 1;</script></body></html>"""
TOC = """format: jb-book
root: book/a
parts:
  - caption: One & all
    chapters:
      - file: book/b
      - file: book/api
"""
ABOUT = {
    "identifier": "urn:uuid:8a54b7fd-9b0b-5d0c-a6a5-000000000001",
    "title": "A & B",
    "author": "Nobody",
    "licence": "CC BY 4.0",
    "home": "https://example.org/book-site/",
    "day": "2031-02-03",
}


@pytest.fixture(scope="module")
def epub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two chapters, made twice."""
    if chromium() is None:
        unavailable("Chromium is not installed: no chapter can be drawn")
    folder = tmp_path_factory.mktemp("epub")
    (folder / "book").mkdir()
    (folder / "book" / "a.html").write_text(PAGE, "utf-8")
    (folder / "book" / "b.html").write_text('<article><h1>B</h1><p id="there">!</p></article>', "utf-8")
    (folder / "toc.yml").write_text(TOC, "utf-8")
    for name in ("first.epub", "second.epub"):
        assert make_epub.make(folder, folder / "toc.yml", ABOUT, folder / name) == 2
    return folder / "first.epub"


@pytest.fixture(scope="module")
def chapter(epub: Path) -> ET.Element:
    with zipfile.ZipFile(epub) as archive:
        return ET.fromstring(archive.read("book/a.xhtml"))


def words(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


@pytest.mark.slow
def test_formulas_are_mathml_with_their_number_last(chapter: ET.Element) -> None:
    inline, block = chapter.iter(f"{MATHML}math")
    assert inline.find(f"{MATHML}msub/{MATHML}mi") is not None
    assert inline.get("alttext") == "x_1 < 2"
    (row,) = block.iter(f"{MATHML}mtr")
    assert ["".join(cell.itertext()) for cell in row] == ["", "y=x", "(7)"]
    assert block.find(f".//{MATHML}msqrt") is not None


@pytest.mark.slow
def test_charts_and_drawings_are_described_pictures(epub: Path, chapter: ET.Element) -> None:
    pictures = [(one.get("src"), one.get("alt"), one.get("width")) for one in chapter.iter(f"{HTML}img")]
    assert pictures == [("a-0.png", "A box. It is red.", "90"), ("a-1.png", "Two bars.", "60")]
    with zipfile.ZipFile(epub) as archive:
        for name, _, width in pictures:
            header = archive.read(f"book/{name}")[:24]
            assert header.startswith(b"\x89PNG")
            assert int.from_bytes(header[16:20], "big") == 2 * int(width or 0), "sharp on a fine screen"


@pytest.mark.slow
def test_what_needs_a_mouse_and_what_is_no_reading_goes(chapter: ET.Element) -> None:
    text = words(chapter)
    assert not [name for name in ("menu", "Report", "import hidden", "42", "Go", "var x") if name in text]
    assert "HintLook up." in text
    assert [words(one) for one in chapter.iter(f"{HTML}pre")] == ["a < b c"]
    tags = {element.tag.rpartition("}")[2] for element in chapter.iter()}
    assert not tags & {"script", "button", "form", "input", "svg", "details", "nav", "style"}


@pytest.mark.slow
def test_links_stay_inside_where_they_can(chapter: ET.Element) -> None:
    links = {words(one): one.get("href") for one in chapter.iter(f"{HTML}a")}
    home = ABOUT["home"]
    assert links == {
        "this": "b.xhtml#there",
        "that": "b.xhtml",
        "no": None,
        "f": f"{home}book/api.html#f",
        "x": f"{home}_downloads/x.csv",
        "What runs here runs on the published page.": f"{home}book/a.html",
    }
    ids = [element.get("id") for element in chapter.iter() if element.get("id")]
    assert ids == ["here"], "once"


@pytest.mark.slow
def test_the_contents_name_parts_and_chapters(epub: Path) -> None:
    with zipfile.ZipFile(epub) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("nav.xhtml")]
        nav = next(ET.fromstring(archive.read(name)).iter(f"{HTML}nav"))
    assert words(nav) == "A & BHeads & masksOne & allB"
    assert [one.get("href") for one in nav.iter(f"{HTML}a")] == ["a.xhtml", "b.xhtml"]
    assert [words(one) for one in nav.iter(f"{HTML}span")] == ["One & all"]


@pytest.mark.slow
def test_the_same_site_gives_the_same_bytes(epub: Path) -> None:
    assert epub.read_bytes() == epub.with_name("second.epub").read_bytes()
    with zipfile.ZipFile(epub) as archive:
        first = archive.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)


def errors(path: Path) -> str:
    """What epubcheck finds wrong in a file."""
    if not (program := shutil.which("epubcheck")):
        unavailable("epubcheck is not installed", "EPUBCHECK")
    # Debian's is a link to the archive of Java, which not every system starts by itself.
    command = ["java", "-jar", program] if Path(program).resolve().suffix == ".jar" else [program]
    done = subprocess.run([*command, path], capture_output=True, text=True, encoding="utf-8", check=False)
    return (done.stdout + done.stderr)[-5000:] if done.returncode else ""


@pytest.mark.deep
def test_epubcheck_finds_the_file_valid_and_a_broken_one_not(epub: Path, tmp_path: Path) -> None:
    assert errors(epub) == ""
    with zipfile.ZipFile(epub) as archive, zipfile.ZipFile(tmp_path / "broken.epub", "w") as broken:
        for name in archive.namelist():
            broken.writestr(name, archive.read(name).replace(b"<h1>", b'<h1 colour="red">'))
    assert "colour" in errors(tmp_path / "broken.epub")


@pytest.fixture
def whole() -> Path:
    """The EPUB of the built site."""
    path = SITE / make_epub.NAME
    if not path.exists():
        unavailable("needs the EPUB of the built site: run `python -m workshop.site.make_epub`")
    return path


@pytest.mark.deep
def test_epubcheck_finds_the_built_sites_epub_valid(whole: Path) -> None:
    assert errors(whole) == ""


@pytest.mark.slow
def test_the_built_sites_epub_has_every_chapter_and_every_link_a_target(whole: Path) -> None:
    with zipfile.ZipFile(whole) as archive:
        pages = {name: ET.fromstring(archive.read(name)) for name in archive.namelist() if name.endswith(".xhtml")}
        names = {name.removeprefix("book/") for name in archive.namelist()}
    chapters = {f"{chapter.name}.xhtml" for chapter in make_epub.chapters_in_order(ROOT / "_toc.yml")}
    assert {name.removeprefix("book/") for name in pages} == {*chapters, "nav.xhtml"}
    ids = {name.removeprefix("book/"): {one.get("id") for one in page.iter()} for name, page in pages.items()}
    for name, page in pages.items():
        for link in (one.get("href", "") for one in page.iter(f"{HTML}a")):
            file, _, fragment = link.partition("#")
            if link and not re.match(r"https?:|mailto:", link):
                target = file or name.removeprefix("book/")
                assert target in names, (name, link)
                assert not fragment or fragment in ids[target], (name, link)
        assert all(one.get("alt") for one in page.iter(f"{HTML}img")), name
    assert any(True for _ in pages["book/attention.xhtml"].iter(f"{MATHML}math"))
