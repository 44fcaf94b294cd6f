"""The picture that a messenger or a network shows beside a link: part, title and question of the chapter.

sphinxext-opengraph draws cards too, but without part and question, refuses a logo in SVG, and packs none of them.
"""

import io
import textwrap

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from workshop.site.book_weight import packed

WIDTH, HEIGHT, DPI = 1200, 630, 100
PAPER, INK, QUIET, BLUE, ORANGE = "#ffffff", "#1b2733", "#4a5a6a", "#2f7fb5", "#d9901a"


def draw_logo(figure: Figure, left: float, bottom: float, width: float) -> None:
    """The book's logo: four words above, four below; the first two lines cross, as words of two languages do."""
    axes = figure.add_axes((left, bottom, width, width * 0.4 * WIDTH / HEIGHT), xlim=(0, 240), ylim=(0, 96))
    axes.axis("off")
    height = np.linspace(22, 74, 40)
    bend = (1 - np.cos(np.pi * (height - 22) / 52)) / 2
    for start, end in ((36, 96), (96, 36)):
        axes.plot(start + (end - start) * bend, height, color=ORANGE, linewidth=5)
    for place in (156, 204):
        axes.plot([place, place], [22, 74], color=BLUE, linewidth=5)
    for place in (36, 96, 156, 204):
        axes.plot([place, place], [16, 80], "o", color=BLUE, markersize=15)


def lines_of(text: str, width: int, most: int) -> str:
    """The text in lines of at most `width` characters; no more than `most` of them."""
    return textwrap.fill(text, width, max_lines=most, placeholder=" …")


def card(title: str, question: str, part: str, book: str) -> bytes:
    """A PNG of 1200 × 630: the same bytes for the same words."""
    figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor=PAPER)
    canvas = FigureCanvasAgg(figure)
    figure.add_artist(Line2D([0.008, 0.008], [0, 1], color=BLUE, linewidth=14, solid_capstyle="butt"))
    figure.text(0.07, 0.86, part.upper(), fontsize=19, color=QUIET, va="center")
    heading = lines_of(title, 24, 2)
    figure.text(0.07, 0.76, heading, fontsize=50, weight="bold", color=INK, va="top", linespacing=1.15)
    below = 0.76 - 0.15 * (1 + heading.count("\n")) - 0.05
    figure.text(0.07, below, lines_of(question, 46, 3), fontsize=28, color=BLUE, va="top", linespacing=1.35)
    figure.text(0.07, 0.09, book, fontsize=20, color=QUIET, va="center")
    draw_logo(figure, 0.76, 0.045, 0.19)
    buffer = io.BytesIO()
    canvas.print_png(buffer, metadata={"Software": None})
    return packed(buffer.getvalue())
