"""What a page weighs: pack its pictures, and give each its size.

_config.yml leaves out the extensions that no page uses; templates/layout.html, the script of 1.5 MB by which the theme
draws its icons a second time, and the search index, which the theme loads on every page; site.css has the fonts of the
icons in use.
"""

import io
import re
from pathlib import Path

from PIL import Image, ImageChops

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


def finish(site: Path) -> None:
    """Pack the pictures of the pages."""
    for file in (site / "_images").glob("*.png"):
        file.write_bytes(packed(file.read_bytes()))
