"""The pen of the book's drawings: boxes, arrows and words as SVG, in the colours and line styles of their roles.

A colour is written `var(--drawing-query, #0072b2)`. A page sets the variable in its dark scheme (book.css); a file that
is opened alone, a notebook and paper show the colour behind the comma. No element but title and desc has an id, so that
a page can hold several drawings.
"""

import math
import re
from html import escape

from transformer_lib import plots

ROLES = ("query", "key", "value", "memory", "state")
COLOURS = {"ground": "#ffffff", "ink": plots.INK, "line": "#52606d"} | dict(zip(ROLES, plots.COLOURS[1:], strict=True))
# Of a box: radius of its corners, dashes and width of its outline. They tell the roles apart without colour.
STYLES: dict[str, tuple[float, str, float]] = {
    "line": (5, "", 1.4),
    "query": (99, "", 1.8),
    "key": (0, "7 3", 1.8),
    "value": (0, "2.5 2", 2.2),
    "memory": (5, "9 2.5 2 2.5", 2),
    "state": (5, "", 2.8),
}
INDEX = re.compile(r"(?<=\w)(_(?:model|ff|[kv\d])|\^[A-Z])(?![a-z])")  # of d_k or W_1^Q, not of target_input
TINT = 0.13  # of the role's colour, behind the words of a box
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"
WIDTH, SHOWN = 360, 432  # of the drawing in its own units; in pixels where there is room
SMALL = 11  # the smallest letters: 10 px on a phone of 390 px
ENCODER = {"embedding": 0, "self": 1, "feed": 2}
DECODER = {"target": 0, "masked": 1, "cross": 2, "target feed": 3, "output": 4}
Point = tuple[float, float]


def colour(role: str) -> str:
    return f"var(--drawing-{role}, {COLOURS[role]})"


def indices(words: str) -> str:
    """`d_k` and `W^Q` with their index lowered or raised, escaped for SVG."""
    written, at = "", 0
    for i, piece in enumerate(INDEX.split(escape(words, quote=False))):
        to, size = ({"_": 3, "^": -4}[piece[0]], f' font-size="{SMALL}"') if i % 2 else (0, "")
        if piece:
            letters = piece[1:] if i % 2 else piece
            written += letters if to == at == 0 else f'<tspan dy="{to - at}"{size}>{letters}</tspan>'
            at = to
    return written


class Canvas:
    """One drawing. Coordinates grow to the right and downwards; a box is given by its centre."""

    def __init__(self, title: str, where: str, map: list[str], description: str):
        self.title, self.description = title, " ".join(description.split())
        self.parts: list[str] = []
        self.bottom = 0.0
        self.text(10, 22, title, size=15, anchor="start", bold=True)
        for i, line in enumerate(where.split("\n")):
            self.text(10, 40 + 15 * i, line, size=SMALL, anchor="start")
        if map:
            self.small_map(map)

    def small_map(self, filled: list[str]) -> None:
        """The model in small, with the parts filled that this drawing enlarges."""
        for x, rows in ((303, ENCODER), (332, DECODER)):
            for name, row in rows.items():
                y = 6 + 9 * row + 5 * (rows is DECODER and row > 1)
                fill = colour("ink") if name in filled else "none"
                self.parts.append(
                    f'<rect x="{x}" y="{y}" width="20" height="6" fill="{fill}" stroke="{colour("ink")}"/>'
                )
        self.path("M313 30V32H332", "line", 1)

    def text(self, x: float, y: float, words: str, size: float = 12, anchor: str = "middle", bold: bool = False):
        """A line of words whose base line is at y; none where there are no words."""
        if not words:
            return
        weight = ' font-weight="650"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"{weight}>{indices(words)}</text>'
        )
        self.bottom = max(self.bottom, y + 4)

    def box(self, x: float, y: float, width: float, height: float, words: str = "", role: str = "line", size=12):
        """A box around (x, y) with its lines of words."""
        corner, dashes, stroke = STYLES[role]
        tint = f'fill="{colour(role)}" fill-opacity="{TINT}"' if role != "line" else 'fill="none"'
        self.parts.append(
            f'<rect x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}" '
            f'rx="{min(corner, height / 2):g}" {tint} {self.stroke(role, stroke, dashes)}/>'
        )
        lines = words.split("\n") if words else []
        for i, line in enumerate(lines):
            self.text(x, y + 4.2 + 14.5 * (i - (len(lines) - 1) / 2), line, size)
        self.bottom = max(self.bottom, y + height / 2)

    @staticmethod
    def stroke(role: str, width: float, dashes: str = "") -> str:
        return f'stroke="{colour(role)}" stroke-width="{width:g}"' + (f' stroke-dasharray="{dashes}"' if dashes else "")

    def path(self, data: str, role: str = "line", width: float = 1.4, dashes: str = "") -> None:
        self.parts.append(f'<path d="{data}" fill="none" {self.stroke(role, width, dashes)}/>')

    def arrow(self, *points: Point, role: str = "line", head: bool = True, width: float = 1.4) -> None:
        """A line through the points, round at its corners, in the dashes of its role."""
        (x, y), end = points[-2:]
        length = math.dist((x, y), end)
        ux, uy = (end[0] - x) / length, (end[1] - y) / length
        stop = (end[0] - 6 * ux, end[1] - 6 * uy) if head else end
        data = f"M{points[0][0]:g} {points[0][1]:g}"
        for before, corner, after in zip(points, points[1:-1], points[2:], strict=False):
            near, far = (self._towards(corner, other, 6) for other in (before, after))
            data += f"L{near[0]:g} {near[1]:g}Q{corner[0]:g} {corner[1]:g} {far[0]:g} {far[1]:g}"
        self.path(f"{data}L{stop[0]:.4g} {stop[1]:.4g}", role, width, STYLES[role][1])
        if head:
            side = 3.2 + width / 2
            tips = [(end[0] - 8 * ux + s * side * uy, end[1] - 8 * uy - s * side * ux) for s in (1, -1)]
            corners = " ".join(f"{a:.4g},{b:.4g}" for a, b in (end, *tips))
            self.parts.append(f'<polygon points="{corners}" fill="{colour(role)}"/>')

    @staticmethod
    def _towards(start: Point, end: Point, most: float) -> Point:
        length = math.dist(start, end)
        share = min(most, length / 2) / length
        return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])

    def circle(self, x: float, y: float, sign: str = "", role: str = "line", radius: float = 9) -> None:
        """A circle; with + in it an addition, with · a dot product."""
        fill = colour("ink") if radius < 4 else "none"
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" {self.stroke(role, 1.4)}/>')
        if sign == "+":
            self.path(f"M{x - 5:g} {y:g}h10M{x:g} {y - 5:g}v10", "ink")
        elif sign == "·":
            self.circle(x, y, radius=2, role="ink")

    def bar(self, x: float, y: float, width: float, height: float, fill: bool = True) -> None:
        """A rectangle from its upper left corner, filled or hollow: a bar of a chart, a cell of a mask."""
        tint = f'fill="{colour("line")}" fill-opacity="{2 * TINT}"' if fill else 'fill="none"'
        size = f'x="{x:g}" y="{y:g}" width="{width:.3g}" height="{height:.3g}"'
        self.parts.append(f"<rect {size} {tint} {self.stroke('line', 1)}/>")

    def strip(self, x: float, y: float, cells: int, role: str, cell: float = 10) -> None:
        """A row of a matrix, cell by cell, from (x, y) at its left end."""
        self.box(x + cells * cell / 2, y, cells * cell, 12, "", role)
        lines = "".join(f"M{x + cell * i:g} {y - 6:g}v12" for i in range(1, cells))
        self.path(lines, role, 1)

    def svg(self, name: str) -> str:
        """The text of the file."""
        height = math.ceil(self.bottom + 10)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" role="img" viewBox="0 0 {WIDTH} {height}" '
            f'width="{SHOWN}" height="{round(height * SHOWN / WIDTH)}" aria-labelledby="{name}-title" '
            f'aria-describedby="{name}-desc" font-family="{FONT}" fill="{colour("ink")}">'
        )
        words = (
            f'<title id="{name}-title">{escape(self.title, quote=False)}</title>',
            f'<desc id="{name}-desc">{escape(self.description, quote=False)}</desc>',
            f'<rect width="{WIDTH}" height="{height}" fill="{colour("ground")}"/>',
        )
        return "\n".join([head, *words, *self.parts, "</svg>", ""])
