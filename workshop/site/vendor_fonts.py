"""Cut the book's font to the letters and weights that the pages use, into book/_static/fonts.

    npm install --ignore-scripts
    pip install brotli
    python -m workshop.site.vendor_fonts node_modules

Building the book needs none of this: the fonts are committed. Both styles together weigh 37 kB, a quarter of the
package's. A letter that is not among LETTERS comes from the reader's own fonts.
"""

import argparse
import io
import shutil
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

ROOT = Path(__file__).resolve().parents[2]
FONTS = ROOT / "book" / "_static" / "fonts"
PACKAGE = "@fontsource-variable/literata"
# Name of the file here, style in the package, weights that book.css asks for.
STYLES = (("literata", "normal", (400, 650)), ("literata-italic", "italic", 400))
LETTERS = "".join(map(chr, range(0x20, 0x7F))) + "äöüÄÖÜßéèáàçñ§°²³·×½«»–—‘’“”„…−"
FEATURES = ["kern", "liga", "calt", "ccmp", "mark", "mkmk"]


def limited(source: Path, weights: tuple[int, int] | int) -> TTFont:
    """The font with these weights only; written and read once, because a subset needs all tables loaded."""
    font = instancer.instantiateVariableFont(TTFont(source), {"wght": weights})
    font.flavor = None
    buffer = io.BytesIO()
    font.save(buffer)
    buffer.seek(0)
    return TTFont(buffer)


def cut(font: TTFont) -> None:
    options = subset.Options(layout_features=FEATURES, hinting=False, desubroutinize=True)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=LETTERS)
    subsetter.subset(font)
    font.flavor = "woff2"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", type=Path, help="the node_modules folder made by npm")
    package = parser.parse_args().modules / PACKAGE
    FONTS.mkdir(exist_ok=True)
    for name, style, weights in STYLES:
        font = limited(package / "files" / f"literata-latin-wght-{style}.woff2", weights)
        cut(font)
        font.save(FONTS / f"{name}.woff2")
    shutil.copyfile(package / "LICENSE", FONTS / "LICENSE-literata.txt")


if __name__ == "__main__":
    main()
