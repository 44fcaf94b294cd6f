"""What a page weighs: leave out what the theme brings and no page uses, and pack what stays.

The theme draws its icons twice over, by a script of 1.5 MB and by fonts of 1,900 icons. templates/layout.html leaves
out the script, and the search index, which the theme loads on every page. What stays of the fonts is found from the
built pages, so an icon that a page begins to use stays.
"""

import io
import re
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

LOGGER = getLogger(__name__)

# Files of the theme's tabs and cards, and the class without which a page does not use them.
UNUSED = (("script_files", "design-tabs.js", "sd-tab-set"), ("css_files", "sphinx-design", 'class="sd-'))
ICON_NAME = re.compile(r"\bfa-[a-z0-9-]+")
ICON_RULE = re.compile(r"((?:\.fa-[\w-]+:{1,2}before,?)+)\{content:\"[^\"]*\"\}")
CODE_POINT = re.compile(r"\\([0-9a-f]{4})\b|([\ue000-\uf8ff])")
FONT_SOURCES = re.compile(r'url\(([^)]*/)(fa-[\w-]+)\.woff2\) format\("woff2"\),url\([^)]*\.ttf\) format\("truetype"\)')
PICTURE = re.compile(r'<img\b(?![^>]*\bwidth=)([^>]*?\bsrc="([^"]*_images/[^"]+\.png)"[^>]*?)(/?)>')
LARGEST_CHANGE = 24  # of 255, in the channel of a pixel at an edge; a photograph changes more, and stays as it is


def pages_of(site: Path) -> list[Path]:
    """The pages of a built site."""
    return sorted([*site.glob("*.html"), *site.glob("book/*.html")])


def with_sizes(page: str, folder: Path) -> str:
    """Give every picture its width and height, so that the text below does not jump when it arrives."""

    def sized(match: re.Match[str]) -> str:
        with Image.open(folder / match[2]) as picture:
            width, height = picture.size
        return f'<img{match[1].rstrip()} width="{width}" height="{height}" decoding="async" {match[3]}>'

    return PICTURE.sub(sized, page)


def leave_out(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Load no tabs and cards on a page without any; templates/layout.html leaves out the rest."""
    for files, name, mark in UNUSED:
        if mark not in context.get("body", ""):
            context[files] = [file for file in context[files] if name not in str(file.filename)]


def packed(data: bytes) -> bytes:
    """A PNG with a palette in which it looks the same; the same bytes where that saves nothing."""
    picture = Image.open(io.BytesIO(data))
    if picture.mode == "P" or picture.convert("RGBA").getchannel("A").getextrema() != (255, 255):
        return data
    whole = picture.convert("RGB")
    few = whole.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    change = ImageChops.difference(whole, few.convert("RGB")).getextrema()
    if max(most for _, most in change) > LARGEST_CHANGE:  # type: ignore[misc]
        return data
    buffer = io.BytesIO()
    few.save(buffer, "PNG", optimize=True)
    return min(data, buffer.getvalue(), key=len)


def icons_used(site: Path) -> set[str]:
    """The names of icons in pages and scripts."""
    files = [*pages_of(site), *site.glob("_static/scripts/*.js")]
    return {name for file in files for name in ICON_NAME.findall(file.read_text("utf-8"))}


def rules_of(styles: str, used: set[str]) -> str:
    """The style sheet without the rules of icons that nobody uses."""

    def kept(match: re.Match[str]) -> str:
        return match[0] if used & set(ICON_NAME.findall(match[1])) else ""

    return ICON_RULE.sub(kept, styles)


def code_points(texts: list[str]) -> set[int]:
    """The characters of icons that style sheets write, as such or as an escape."""
    return {int(match[1], 16) if match[1] else ord(match[2]) for text in texts for match in CODE_POINT.finditer(text)}


def write_subset(source: Path, characters: set[int]) -> None:
    """Write the font with these characters alone, with its licence, beside the whole one."""
    from fontTools import subset

    wanted = f"--unicodes={','.join(f'{one:x}' for one in sorted(characters))}"
    options = ["--flavor=woff", "--name-IDs=*", "--no-hinting", "--notdef-outline"]
    subset.main([str(source), wanted, *options, f"--output-file={source.with_suffix('.woff')}"])


def trim_icons(site: Path) -> None:
    """Keep the rules and the glyphs of the icons that the pages use."""
    styles = site / "_static" / "styles"
    theme = styles / "pydata-sphinx-theme.css"
    folder = site / "_static" / "vendor" / "fontawesome" / "webfonts"
    fonts = sorted(folder.glob("*.ttf"))
    if not fonts and [*folder.glob("*.woff")]:
        return  # the icons were trimmed by an earlier build, whose files are still there
    if not theme.exists() or not fonts:
        LOGGER.warning("the theme's icons have moved: change their place in book_weight.py")
        return
    trimmed = rules_of(theme.read_text("utf-8"), icons_used(site))
    theme.write_text(FONT_SOURCES.sub(r'url(\1\2.woff) format("woff")', trimmed), "utf-8")
    sheets = [file.read_text("utf-8") for file in [*styles.glob("*.css"), *site.glob("_static/*.css")]]
    for font in fonts:
        write_subset(font, code_points(sheets))
        font.with_suffix(".woff2").unlink(missing_ok=True)
        font.unlink()


def finish(site: Path) -> None:
    """Lighten everything that the pages load."""
    for file in (site / "_images").glob("*.png"):
        file.write_bytes(packed(file.read_bytes()))
    (site / "_static" / "scripts" / "fontawesome.js").unlink(missing_ok=True)
    trim_icons(site)
