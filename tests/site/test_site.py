"""The files of the built site: every link leads somewhere, every icon has its glyph, nothing is left over."""

import json
import re
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from browser import ROOT, SITE, Links
from fontTools.ttLib import TTFont

from workshop.site.address import configured
from workshop.site.book_index import pages_in_order

pytestmark = pytest.mark.slow

HOME = urlsplit(configured().home).path


@pytest.fixture(scope="module")
def parsed(site: Path) -> dict[Path, Links]:
    found = {}
    for path in site.rglob("*.html"):
        if "_static" not in path.parts:
            found[path] = Links()
            found[path].feed(path.read_text("utf-8"))
    return found


def broken(path: Path, target: str, parsed: dict[Path, Links]) -> bool:
    """Whether a link from the page at `path` leads nowhere on the site."""
    address, anchor = urldefrag(target)
    if address.startswith(HOME):  # 404.html, which is shown at any depth
        path, address = SITE / "404.html", address.removeprefix(HOME)
    file = (path.parent / unquote(urlsplit(address).path)).resolve() if address else path
    if file.is_dir():
        file /= "index.html"
    if not file.exists():
        return True
    return bool(anchor) and file in parsed and unquote(anchor) not in parsed[file].ids


def test_every_link_inside_the_site_leads_somewhere(parsed: dict[Path, Links]) -> None:
    nowhere = [
        f"{path.relative_to(SITE)} → {target}"
        for path, links in parsed.items()
        for target in links.targets
        if not urlsplit(target).scheme and target not in {"#", ""} and broken(path, target, parsed)
    ]
    assert nowhere == []


def test_colab_links_name_notebooks_that_exist(parsed: dict[Path, Links]) -> None:
    start = configured().colab("")
    executed = 0
    for path, links in parsed.items():
        for target in (target for target in links.targets if "colab.research" in target):
            assert target.startswith(start), f"{path.name}: {target}"
            assert (ROOT / target.removeprefix(start)).exists(), f"{path.name}: {target}"
            executed += 1
    sources = [path.read_text("utf-8") for path in pages_in_order(ROOT)]
    assert executed >= sum("{code-cell}" in source for source in sources) > 0


def test_links_of_the_notebooks_lead_to_the_site(parsed: dict[Path, Links]) -> None:
    start = configured().site
    nowhere = []
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        text = "\n".join("".join(cell["source"]) for cell in json.loads(notebook.read_text("utf-8"))["cells"])
        for target in re.findall(rf"\({re.escape(start)}([^)\s]*)\)", text):
            if broken(SITE / "book" / "index.html", target, parsed):
                nowhere.append(f"{notebook.name} → {target}")
    assert nowhere == []


def test_every_icon_has_its_glyph_and_its_rule(site: Path) -> None:
    styles = "".join(path.read_text("utf-8") for path in (site / "_static" / "styles").glob("*.css"))
    ours = (site / "_static" / "site.css").read_text("utf-8")
    glyphs = set()
    for font, named in re.findall(r'url\("(fonts/icons-\w+\.woff)"\)[^}]*unicode-range: ([^;]*);', ours):
        characters = set(TTFont(site / "_static" / font).getBestCmap())
        assert characters == {int(one, 16) for one in re.findall(r"U\+(\w+)", named)}, font
        glyphs |= characters
    pages = [path.read_text("utf-8") for path in site.glob("book/*.html")]
    names = {name for page in pages for group in re.findall(r'<(?:i|span) class="[^"]*\bfa[srb]?\b[^"]*"', page)
             for name in re.findall(r"\bfa-[a-z-]+", group)} - {"fa-solid", "fa-lg"}  # fmt: skip
    assert len(names) > 8
    for name in names:
        rule = re.search(rf'\.{name}:{{1,2}}before[^{{]*\{{content:"\\([0-9a-f]+)"', styles)
        assert rule is not None, f"no rule for {name}"
        assert int(rule[1], 16) in glyphs, f"no glyph for {name}"
