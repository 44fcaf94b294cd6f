"""The book's drawings of mechanisms: one master drawing of the model, and zooms into it.

    python -m workshop.site.drawings    write book/_static/drawings/

A chapter shows one with `{figure} _static/drawings/NAME.svg` and a caption; the description comes from drawings.toml.
All are read from top to bottom. Pills are queries, dashed boxes keys, dotted boxes values, dash-dotted boxes memory,
thick outlines the states that pass from layer to layer.
"""

import math
import tomllib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from workshop.site.svg_canvas import SMALL, Canvas, Point

FOLDER = Path(__file__).resolve().parents[2] / "book" / "_static" / "drawings"
WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
Edge = tuple[Point, Point]
STATE, TARGET = "n × d_model", "m × d_model"
QKV = ("query", "key", "value")


def sublayer(
    c: Canvas,
    x: float,
    y: float,
    width: float,
    words: str,
    around: float,
    inputs: str = "",
    shape: str = "",
    dropout: str = "dropout",
) -> float:
    """A sub-layer with dropout, its residual arrow, and add & norm; the states come in at (x, y). Returns its bottom.

    `around` is where the residual arrow passes; `inputs` is "qkv" where all three come from the states, "q" where keys
    and values come from elsewhere. Without dropout it shows a model that translates.
    """
    c.path(f"M{x} {y}v12", "state", 2)
    y += 12
    top = y + {"qkv": 40, "q": 24, "": 24}[inputs]
    height = 15 + 14.5 * (words.count("\n") + 1)
    norm = top + height + 33
    side = x + math.copysign(width / 2, around - x)
    c.arrow((x, y), (around, y), (around, norm), (side, norm), role="state", width=2)
    if inputs == "qkv":
        spread = width * 0.3
        c.path(f"M{x} {y}V{y + 12}M{x - spread} {y + 12}H{x + spread}", "state", 2)
        for role, at in zip(QKV, (x - spread, x, x + spread), strict=True):
            c.arrow((at, y + 12), (at, top), role=role)
            c.text(at + 6, top - 11, role[0].upper(), SMALL, "start")
    else:
        c.arrow((x, y), (x, top), role="query" if inputs else "state", width=1.4 if inputs else 2)
    if inputs == "q":
        c.text(x + 7, top - 9, "Q", SMALL, "start")
    c.box(x, top + height / 2, width, height, words)
    c.arrow((x, top + height), (x, norm - 13))
    c.text(x + 7, top + height + 14, dropout, SMALL, "start")
    c.text(x - 7, top + height + 14, shape, SMALL, "end")
    c.box(x, norm, width, 26, "add & norm")
    return norm + 13


def stack(
    c: Canvas, x: float, y: float, width: float, *boxes: tuple[str, str, str], gap: float = 26, above: str = "line"
) -> float:
    """Boxes under each other, each with an arrow from above: its words, what stands beside the arrow, its role.

    `above` is the role of the arrow to the first box. Returns the bottom of the last.
    """
    for words, beside, role in boxes:
        height = 15 + 14.5 * (words.count("\n") + 1)
        carried = "state" if "state" in {above, role} else "line"
        c.arrow((x, y), (x, y + gap), role=carried, width=2 if carried == "state" else 1.4)
        c.text(x + 7, y + gap - 9, beside, SMALL, "start")
        c.box(x, y + gap + height / 2, width, height, words, role)
        y, above = y + gap + height, "line"
    return y


def frame(c: Canvas, left: float, top: float, right: float, bottom: float) -> None:
    """Around the layer that is repeated."""
    c.path(f"M{left} {top}H{right}V{bottom}H{left}Z", "line", 1, "1.5 3")


def embed(c: Canvas, x: float, y: float, words: str, positions: float, shape: str) -> float:
    """Words of a sentence, their embeddings, and the positions that are added; returns the bottom."""
    c.text(x, y, words)
    c.arrow((x, y + 6), (x, y + 22))
    c.box(x, y + 42, 124, 40, "embedding\n× √d_model")
    c.arrow((x, y + 62), (x, y + 77))
    c.circle(x, y + 86, "+")
    side = math.copysign(1, positions - x)
    c.text(positions, y + 90, "positions", SMALL, "start" if side < 0 else "end")
    c.arrow((positions - side * 60, y + 86), (x + side * 10, y + 86))
    c.text(x - 7, y + 110, "dropout", SMALL, "end")
    c.text(x + 7, y + 110, shape, SMALL, "start")
    c.path(f"M{x} {y + 95}v21", "state", 2)
    return y + 116


def transformer(c: Canvas) -> None:
    enc, dec = 96, 258
    y = embed(c, enc, 68, "forty seven <eos>", 6, STATE)
    top = y + 2
    c.text(163, top + 16, "N ×", 13, "end", bold=True)
    y = sublayer(c, enc, y, 124, "multi-head\nself-attention", 18, "qkv")
    y = sublayer(c, enc, y, 124, "feed-forward", 18)
    frame(c, 6, top, 170, y + 10)
    memory = y + 52
    c.arrow((enc, y), (enc, memory - 20), role="state", width=2)
    c.box(enc, memory, 124, 40, f"memory\n{STATE}", "memory")
    c.text(enc, memory + 35, "for every decoder layer", SMALL)
    # The decoder stands so that its second sub-layer is level with the memory.
    start = memory - 329
    c.text(dec, start - 62, "sieben und vierzig <eos>")
    c.arrow((dec, start - 56), (dec, start - 42))
    c.box(dec, start - 29, 124, 26, "shift right")
    y = embed(c, dec, start, "<bos> sieben und vierzig", 354, TARGET)
    top = y + 2
    c.text(190, top + 16, "N ×", 13, "start", bold=True)
    y = sublayer(c, dec, y, 124, "masked multi-head\nself-attention", 340, "qkv")
    c.arrow((158, memory - 8), (196, memory - 8), role="key")
    c.arrow((158, memory + 8), (196, memory + 8), role="value")
    c.text(174, memory - 14, "K", SMALL)
    c.text(174, memory + 22, "V", SMALL)
    y = sublayer(c, dec, y, 124, "multi-head\ncross-attention", 340, "q")
    y = sublayer(c, dec, y, 124, "feed-forward", 340)
    frame(c, 184, top, 350, y + 10)
    y = stack(c, dec, y, 124, ("linear", TARGET, "line"), ("softmax", "m × vocabulary", "line"), gap=34, above="state")
    c.arrow((dec, y), (dec, y + 22))
    c.text(dec + 7, y + 15, "probabilities of", SMALL, "start")
    c.text(dec, y + 37, "sieben und vierzig <eos>")
    legend(c, 12, memory + 78)


def legend(c: Canvas, x: float, y: float) -> None:
    """What the outlines mean."""
    c.text(x, y, "In every drawing", SMALL, "start", bold=True)
    for i, role in enumerate(("query", "key", "value", "memory", "state")):
        c.box(x + 21, y + 20 + 24 * i, 40, 15, "", role)
        c.text(x + 50, y + 24 + 24 * i, role, SMALL, "start")
    c.text(x, y + 148, "n source tokens,", SMALL, "start")
    c.text(x, y + 163, "m target tokens", SMALL, "start")


def recurrence(c: Canvas) -> None:
    for i, word in enumerate(("forty", "seven", "<eos>")):
        x = 60 + 120 * i
        c.text(x, 92, word)
        c.arrow((x, 98), (x, 118))
        c.box(x, 133, 56, 30, f"h_{i + 1}", "state")
        if i:
            c.arrow((x - 92, 133), (x - 28, 133), role="state", width=2)
            c.text(x - 62, 125, f"step {i + 1}", SMALL)
    c.arrow((300, 148), (300, 176), (180, 176), (180, 200), role="state", width=2)
    c.text(240, 169, "last state alone", SMALL)
    c.box(180, 217, 190, 34, "one vector, d numbers,\nhowever long the sentence", "state", SMALL)
    c.path("M180 234V252M48 252H312", "state", 2)
    target = ("<bos>", "sieben", "und", "vierzig", "<eos>")
    for i, word in enumerate(target[1:]):
        x = 48 + 88 * i
        c.arrow((x, 251), (x, 296), role="state", width=2)
        c.text(x + 7, 274, target[i], SMALL, "start")
        c.box(x, 312, 48, 30, f"s_{i + 1}", "state")
        if i:
            c.arrow((x - 64, 312), (x - 24, 312), role="state", width=2)
        c.arrow((x, 327), (x, 348))
        c.text(x, 363, word)
    c.text(180, 386, "beside each arrow: the word that this step reads", SMALL)


def numbers(values: Sequence[float]) -> str:
    return f"({', '.join(f'{value:.3g}' for value in values)})"


def lookup(c: Canvas) -> None:
    words, keys, values = ("forty", "seven", "<eos>"), ([0, 1], [1, 0], [0, 0]), ([0, 4], [7, 0], [0, 0])
    query = [3, 0]
    scores = [sum(q * k for q, k in zip(query, key, strict=True)) for key in keys]
    total = sum(map(math.exp, scores))
    weights = [math.exp(score) / total for score in scores]
    found = [round(sum(w * value[i] for w, value in zip(weights, values, strict=True)), 1) for i in (0, 1)]
    named = {
        "query": numbers(query),
        "scores": scores,
        "weights": [round(w, 3) for w in weights],
        "found": numbers(found),
    }
    c.description = c.description.format(**named)
    c.box(142, 92, 130, 28, f"query {numbers(query)}", "query")
    for x, head in ((96, "key"), (178, "score"), (240, "weight"), (318, "value")):
        c.text(x, 136, head, SMALL, bold=True)
    c.text(209, 152, "softmax", SMALL)
    for i, (word, score, weight) in enumerate(zip(words, scores, weights, strict=True)):
        y = 178 + 44 * i
        c.arrow((142, 106 if i == 0 else y - 35), (142, y - 9), role="query", width=1.8)
        c.text(8, y + 4, word, anchor="start")
        c.box(92, y, 58, 26, numbers(keys[i]), "key")
        c.arrow((121, y), (133, y), role="key")
        c.circle(142, y, "·")
        c.arrow((151, y), (168, y))
        c.text(178, y + 4, f"{score}", 13)
        c.arrow((188, y), (210, y))
        c.bar(214, y - 12, 50 * weight, 8)
        c.text(214, y + 12, f"{weight:.3f}", SMALL, "start")
        c.text(270, y + 4, "×", 13)
        c.box(318, y, 58, 26, numbers(values[i]), "value")
    c.arrow((318, 280), (318, 316), (256, 316), role="value")
    c.arrow((232, 284), (232, 303))
    c.box(180, 316, 150, 26, "sum of weight × value")
    c.arrow((180, 329), (180, 352))
    c.box(180, 367, 150, 30, f"found {numbers(found)}", "value")
    c.text(180, 402, f"{' + '.join(f'{w:.3f}·{numbers(v)}' for w, v in zip(weights, values, strict=True))}", SMALL)


def paths(c: Canvas) -> None:

    def panel(y: float, rows: list[int], head: str, note: str, faint: Sequence[Edge], thick: Sequence[Point]) -> float:
        """Circles (column, row), joined by faint lines and one thick path; `rows`: how far each row lies below y."""

        def place(point: Point) -> Point:
            return 36 + 48 * point[0], y + rows[int(point[1])]

        def between(start: Point, end: Point) -> tuple[Point, Point]:
            (ax, ay), (bx, by) = place(start), place(end)
            dx, dy = (10 * d / math.dist((ax, ay), (bx, by)) for d in (bx - ax, by - ay))
            return (ax + dx, ay + dy), (bx - dx, by - dy)

        c.text(10, y, head, 13, "start", bold=True)
        c.text(10, y + 17, note, SMALL, "start")
        ends = [between(*edge) for edge in faint if edge not in set(pairwise(thick))]
        c.path("".join(f"M{a:.4g} {b:.4g}L{x:.4g} {y:.4g}" for (a, b), (x, y) in ends), "line", 0.7)
        for edge in pairwise(thick):
            c.arrow(*between(*edge), role="state", width=3)
        for row in range(len(rows)):
            for column in every:
                x, at = place((column, row))
                c.circle(x, at, "", "state" if (column, row) in thick else "line")
                if row in {0, len(rows) - 1}:
                    c.text(x, at + 4, str(column + 1), SMALL)
        return y + rows[-1] + 46

    every = range(7)
    chain = [((i, 0), (i, 1)) for i in every] + [((i, 1), (i + 1, 1)) for i in range(6)]
    note = "path n − 1; one position after the other"
    y = panel(92, [44, 84], "Recurrence: 6 steps", note, chain, [(0, 0), *((i, 1) for i in every)])
    local = [((i, row), (j, row + 1)) for row in range(3) for i in every for j in every if abs(i - j) <= 2]
    note = "path grows like n / k; all positions of a layer at once"
    steps = [(2 * i, i) for i in range(4)]
    y = panel(y, [44, 88, 132, 176], "Convolution over k = 5 words: 3 layers", note, local, steps)
    pairs = [((i, 0), (j, 1)) for i in every for j in every]
    panel(y, [44, 144], "Self-attention: 1 step", "path 1; all positions at once", pairs, [(0, 0), (6, 1)])


def self_attention(c: Canvas) -> None:
    words, weights = ("seven", "thousand", "forty", "seven"), (2, 6, 1.2, 1.2)
    c.text(180, 88, "each word as key and value", SMALL, bold=True)
    places = [48 + 88 * i for i in range(4)]
    for i, x in enumerate(places):
        c.path("".join(f"M{x} 234L{to} 151" for to in places), "line", 0.8)
        c.path(f"M{places[0]} 234L{x} 151", "query", weights[i])
    for i, (x, word) in enumerate(zip(places, words, strict=True)):
        c.text(x, 108, word)
        c.arrow((x, 113), (x, 124), head=False)
        c.box(x - 17, 137, 30, 26, f"k_{i + 1}", "key")
        c.box(x + 17, 137, 30, 26, f"v_{i + 1}", "value")
        c.box(x, 248, 44, 26, f"q_{i + 1}", "query")
        c.arrow((x, 261), (x, 282))
        c.box(x, 296, 60, 28, f"z_{i + 1}", "state")
        c.text(x, 327, word)
    c.text(180, 349, "the same words as queries; z: what each finds", SMALL, bold=True)
    c.text(180, 367, "q, k and v: three linear maps of each word's vector", SMALL)
    c.text(180, 383, "line width: the weight (an illustration)", SMALL)


def attention(c: Canvas) -> None:
    for x, role, shape in ((62, "query", "queries × d_k"), (180, "key", "keys × d_k"), (298, "value", "keys × d_v")):
        c.box(x, 104, 106, 44, f"{role[0].upper()}\n{shape}", role)
        if x < 298:
            c.arrow((x, 126), (x, 152), role=role, width=2)
    y = stack(
        c,
        121,
        181,
        226,
        ("divide by √d_k", "queries × keys", "line"),
        ("mask, if any: hidden scores = −∞", "scores, queries × keys", "line"),
        ("softmax over the keys, row by row", "", "line"),
        ("weighted sum: weights · V", "weights, queries × keys", "line"),
    )
    c.box(121, 166.5, 226, 29, "dot products: Q K^T")
    c.arrow((298, 126), (298, y - 15), (234, y - 15), role="value", width=2)
    stack(c, 121, y, 150, ("output\nqueries × d_v", "", "value"))


def heads(c: Canvas) -> None:
    c.box(180, 102, 232, 30, "queries, keys, values: d_model each", "state")
    c.path("M180 117V130M62 130H298", "state", 2)
    for i in range(3):
        x = 62 + 118 * i
        c.arrow((x, 130), (x, 150), role="state", width=2)
        c.path(f"M{x - 54} 151H{x + 54}V318H{x - 54}Z", "line", 1, "1.5 3")
        c.text(x, 168, f"head {i + 1}", bold=True)
        for j, (role, cells) in enumerate((("query", 3), ("key", 3), ("value", 5))):
            y = 190 + 26 * j
            c.text(x - 46, y + 4, f"W_{i + 1}^{role[0].upper()}", anchor="start")
            c.strip(x - 10, y, cells, role)
        c.text(x - 10 + 36, 194, "d_k", SMALL, "start")
        c.text(x - 10 + 36, 220, "d_k", SMALL, "start")
        c.text(x - 10 + 25, 263, "d_v", SMALL)
        c.box(x, 282, 92, 24, "attention")
        c.arrow((x, 294), (x, 336))
        c.strip(x - 25, 344, 5, "value")
        c.arrow((x, 350), (105 + 75 * i, 378))
    c.text(298 + 32, 348, "d_v", SMALL, "start")
    c.strip(105 - 37.5, 386, 15, "value", 15)
    c.text(180, 408, "side by side: h · d_v", SMALL)
    stack(c, 180, 414, 150, ("linear map W^O", "", "line"), ("output: n × d_model", "", "state"), gap=20)


def mask(c: Canvas) -> None:
    words = ("<bos>", "sieben", "und", "<pad>")

    def grid(
        left: float, top: float, head: str, visible: str, hidden: str, allowed: Callable[[int, int], bool]
    ) -> None:
        c.text(left + 52, top - 22, head, SMALL, bold=True)
        for i, word in enumerate(words):
            c.text(left + 13 + 26 * i, top - 6, str(i + 1), SMALL)
            c.text(left - 6, top + 17 + 26 * i, f"{word} {i + 1}" if left < 100 else str(i + 1), SMALL, "end")
            share = f"1/{min(i + 1, 3)}" if i else "1"
            for j in range(4):
                x, y, may = left + 26 * j, top + 26 * i, allowed(i, j)
                c.bar(x, y, 26, 26, may)
                c.text(x + 13, y + 17, (visible if may else hidden).format(share), SMALL)
                if may and not visible:
                    c.circle(x + 13, y + 13, radius=3.5, role="ink")
                elif not hidden:
                    c.path(f"M{x + 5} {y + 21}L{x + 21} {y + 5}", "line", 1)

    def real(_query: int, key: int) -> bool:
        return words[key] != "<pad>"

    def past(query: int, key: int) -> bool:
        return key <= query

    def both(query: int, key: int) -> bool:
        return real(query, key) and past(query, key)

    grid(66, 126, "not padding", "", "", real)
    grid(244, 126, "not the future", "", "", past)
    c.text(199, 182, "and", bold=True)
    c.text(180, 252, "dot: this query (row) may look at this key (column)", SMALL)
    grid(66, 308, "masked scores", "s", "−∞", both)
    grid(244, 308, "weights", "{}", "0", both)
    c.arrow((178, 360), (222, 360))
    c.text(199, 352, "softmax", SMALL)
    c.text(180, 434, "weights drawn for equal scores", SMALL)


def positions(c: Canvas) -> None:
    for i, word in enumerate(("forty", "seven", "<eos>")):
        x = 64 + 116 * i
        c.text(x, 92, word, 13, bold=True)
        c.arrow((x, 98), (x, 116))
        c.strip(x - 44, 124, 8, "line", 11)
        c.circle(x, 176, "+")
        c.path(f"M{x - 46} 228h92", "line", 1)
        for j in range(8):
            angle = i / 10_000 ** (j // 2 * 2 / 8)
            height = 20 * (math.cos(angle) if j % 2 else math.sin(angle))
            if abs(height) > 0.01:
                c.bar(x - 42.5 + 11 * j, 228 - max(height, 0), 8, abs(height))
        c.text(x, 266, f"position {i}", SMALL)
        c.arrow((x, 294), (x, 314))
        c.strip(x - 44, 324, 8, "state", 11)
    c.text(180, 148, "row of the embedding matrix × √d_model", SMALL)
    c.text(180, 284, "sines and cosines, d_model of them", SMALL)
    c.text(180, 352, "their sum, n × d_model; then dropout, then layer 1", SMALL)


def shared_matrix(c: Canvas) -> None:
    for x, words, token in ((78, "source", "seven"), (272, "target", "und")):
        c.text(x, 92, f"{words} token: {token}")
        c.arrow((x, 98), (x, 126))
        c.arrow((x, 231), (x, 255))
        c.text(x + 7, 245, "× √d_model", SMALL, "start")
        c.strip(x - 44, 264, 8, "state", 11)
        c.arrow((x, 272), (x, 294), role="state", width=2)
        c.text(x, 309, "encoder" if x < 180 else "decoder")
    for row in range(6):
        c.bar(20, 144 + 14.5 * row - 16 * (row == 0), 320, 14.5 + 16 * (row == 0), row in {2, 4})
    c.text(78, 184, "row of seven", SMALL)
    c.text(272, 213, "row of und", SMALL)
    c.text(180, 146, "one matrix E: vocabulary × d_model", SMALL, bold=True)
    c.arrow((272, 314), (272, 340), role="state", width=2)
    c.text(265, 330, "last states:", SMALL, "end")
    c.text(279, 330, "m × d_model", SMALL, "start")
    c.strip(228, 349, 8, "state", 11)
    y = stack(c, 272, 357, 130, ("dot product with\nevery row of E", "", "line"), above="state")
    c.arrow((180, 231), (180, y - 22), (207, y - 22))
    c.text(172, y - 30, "the same E", SMALL, "end")
    c.arrow((272, y), (272, y + 24))
    c.text(272, y + 39, "logits, m × vocabulary")


def add_and_norm(c: Canvas) -> None:
    x = 215
    c.box(x, 100, 170, 30, f"x: {STATE}", "state")
    c.path(f"M{x} 115v18", "state", 2)
    c.arrow((x, 133), (56, 133), (56, 274), (x - 10, 274), role="state", width=2)
    c.text(64, 196, "residual", SMALL, "start")
    c.text(64, 210, "connection", SMALL, "start")
    y = stack(
        c,
        x,
        133,
        170,
        ("sub-layer: attention\nor feed-forward", "", "line"),
        ("dropout", "", "line"),
        gap=20,
        above="state",
    )
    c.arrow((x, y), (x, 264))
    c.circle(x, 274, "+")
    y = stack(c, x, 283, 220, ("LayerNorm: each row to\nmean 0 and deviation 1,\nthen × g + b", "", "line"), gap=20)
    stack(c, x, y, 170, (f"output: {STATE}", "", "state"), gap=20)
    c.text(180, y + 72, "LayerNorm(x + Dropout(Sublayer(x)))", 13)


def encoder_layer(c: Canvas) -> None:
    x = 200
    c.box(x, 96, 150, 30, f"states: {STATE}", "state")
    y = sublayer(c, x, 111, 220, "multi-head self-attention\n(padding hidden)", 44, "qkv", "n × d_model")
    y = sublayer(c, x, y, 220, "feed-forward: linear to n × d_ff,\nReLU, linear to n × d_model", 44, "", "n × d_model")
    stack(c, x, y, 150, (f"states: {STATE}", "", "state"))


def decoder_layer(c: Canvas) -> None:
    x, width = 220, 200
    c.box(x, 96, 150, 30, f"states: {TARGET}", "state")
    y = sublayer(c, x, 111, width, "masked multi-head\nself-attention (padding\nand future hidden)", 346, "qkv", TARGET)
    middle = y + 12 + 24 + 22
    c.box(52, middle, 88, 44, f"memory\n{STATE}", "memory")
    for role, dy in (("key", -9), ("value", 9)):
        c.arrow((96, middle + dy), (120, middle + dy), role=role)
        c.text(107, middle + (-15 if dy < 0 else 24), role[0].upper(), SMALL)
    y = sublayer(c, x, y, width, "multi-head cross-attention\n(source padding hidden)", 346, "q", TARGET)
    y = sublayer(c, x, y, width, "feed-forward: linear to m × d_ff,\nReLU, linear to m × d_model", 346, "", TARGET)
    stack(c, x, y, 150, (f"states: {TARGET}", "", "state"))


def shift_right(c: Canvas) -> None:
    tokens = ("<bos>", "sieben", "und", "vierzig", "<eos>")
    places = [38 + 71 * i for i in range(5)]
    c.text(216, 88, "target_output: all but the first", SMALL, bold=True)
    c.path("M80 100V94H352V100", "ink", 1)
    c.text(144, 166, "target_input: all but the last", SMALL, bold=True)
    c.path("M8 142V148H282V142", "ink", 1)
    for i, (x, token) in enumerate(zip(places, tokens, strict=True)):
        c.box(x, 121, 62, 28, token)
        if i < 4:
            c.box(x, 206, 62, 28, token, "state")
            c.arrow((x, 220), (x, 242), role="state", width=2)
            c.arrow((x, 284), (x, 306))
            c.box(x, 320, 62, 28, tokens[i + 1])
    c.box(144.5, 263, 275, 42, "decoder: position i sees\npositions up to i of the input")
    c.text(322, 210, "given", SMALL)
    c.text(322, 324, "asked for", SMALL)


def decoding_step(c: Canvas) -> None:
    for i, word in enumerate(("<bos>", "sieben", "und")):
        y = (106, 140, 196)[i]
        c.text(8, y + 4, word, anchor="start", bold=i == 2)
        c.box(238, y, 48, 24, f"k_{i + 1}", "key")
        c.box(306, y, 48, 24, f"v_{i + 1}", "value")
    c.text(66, 110, "kept from step 1", SMALL, "start")
    c.text(66, 144, "kept from step 2", SMALL, "start")
    c.path("M206 84H338V214H206Z", "line", 1, "1.5 3")
    c.text(272, 78, "cache of this layer", SMALL, bold=True)
    c.box(84, 196, 84, 28, "1 × d_model", "state")
    c.box(172, 196, 40, 24, "q_3", "query")
    c.arrow((126, 196), (152, 196), role="state", width=2)
    for x in (238, 306):
        c.arrow((138, 196), (138, 168), (x, 168), (x, 184), role="state", width=2)
    c.arrow((172, 208), (172, 240), role="query")
    c.arrow((238, 214), (238, 240), role="key")
    c.arrow((306, 214), (306, 240), role="value")
    x, right = 234, 346
    c.box(x, 260, 200, 40, "self-attention:\n1 query, 3 keys, 3 values")
    c.arrow((x, 280), (x, 300))
    c.box(x, 313, 200, 26, "add & norm")
    c.arrow((84, 210), (84, 313), (134, 313), role="state", width=2)
    c.box(58, 384, 100, 56, "memory's keys\nand values,\ncomputed once", "memory", SMALL)
    c.arrow((108, 374), (134, 374), role="key")
    c.arrow((108, 394), (134, 394), role="value")
    y = sublayer(c, x, 326, 200, "cross-attention: 1 query,\nn keys, n values", right, "q", dropout="")
    y = sublayer(c, x, y, 200, "feed-forward", right, dropout="")
    y = stack(c, x, y, 200, ("linear, softmax", "after the last layer", "line"), above="state")
    c.arrow((x, y), (x, y + 20))
    c.text(x, y + 36, "vierzig", bold=True)
    c.text(200, y + 36, "the newest token of step 4:", SMALL, "end")


def pre_norm_sublayer(
    c: Canvas, x: float, y: float, width: float, words: str, around: float, inputs: str = ""
) -> float:
    """A sub-layer of today: the norm stands before it, inside the residual arrow. Returns the bottom of the sum."""
    c.path(f"M{x} {y}v12", "state", 2)
    y += 12
    c.arrow((x, y), (x, y + 14), role="state", width=2)
    c.box(x, y + 27, width, 26, "RMSNorm")
    top = y + 40 + (46 if inputs else 18)
    if inputs:
        spread = width * 0.3
        c.path(f"M{x} {y + 40}V{y + 52}M{x - spread} {y + 52}H{x + spread}")
        for role, at in zip(QKV, (x - spread, x, x + spread), strict=True):
            c.arrow((at, y + 52), (at, top), role=role)
            c.text(at + 8, top - 12, role[0].upper(), SMALL, "start")
            if role != "value":  # a filled mark: turned
                c.circle(at, y + 62, radius=3.5, role="ink")
    else:
        c.arrow((x, y + 40), (x, top))
    bottom = top + 15 + 14.5 * (words.count("\n") + 1)
    c.box(x, (top + bottom) / 2, width, bottom - top, words)
    c.arrow((x, bottom), (x, bottom + 20))
    c.circle(x, bottom + 29, "+")
    sum_at = (x + math.copysign(10, around - x), bottom + 29)
    c.arrow((x, y), (around, y), (around, bottom + 29), sum_at, role="state", width=2)
    return bottom + 38


def then_and_now(c: Canvas) -> None:
    old, new, wide = 90, 262, 142
    for x, words in ((old, "2017"), (new, "today")):
        c.text(x, 86, words, 13, bold=True)
        c.box(x, 108, 124, 26, "states", "state")
    y = sublayer(c, old, 121, 124, "masked multi-head\nself-attention", 14, "qkv")
    middle = y + 12 + 24 + 22
    for role, dy in (("key", -7), ("value", 7)):
        c.arrow((186, middle + dy), (152, middle + dy), role=role)
    c.text(158, middle - 14, "memory", SMALL, "start")
    y = sublayer(c, old, y, 124, "multi-head\ncross-attention", 14, "q")
    ends = sublayer(c, old, y, 124, "feed-forward:\nlinear, ReLU, linear", 14)
    below = pre_norm_sublayer(c, new, 121, wide, "masked self-attention,\nheads share K and V", 350, "qkv")
    c.path(f"M{new} {below}V{y - 6}", "state", 2)
    c.text(new + 10, (below + y) / 2 - 10, "no cross-", SMALL, "start")
    c.text(new + 10, (below + y) / 2 + 4, "attention", SMALL, "start")
    lasts = pre_norm_sublayer(c, new, y - 6, wide, "gated network:\nlinear, gate, linear", 350)
    bottom = max(ends, lasts) + 26
    for x, end in ((old, ends), (new, lasts)):
        c.arrow((x, end), (x, bottom), role="state", width=2)
        c.box(x, bottom + 13, 124, 26, "states", "state")
    c.text(180, bottom + 50, "dots: queries and keys turned by their position (rotary)", SMALL)
    c.text(180, bottom + 66, "2017 adds positions once, before the first layer", SMALL)


def two_orders(c: Canvas) -> None:
    names = [f"{kind}_{i}" for kind in "sc" for i in range(4)]
    turns = [4 * (i % 2) + i // 2 for i in range(8)]  # which of the halves stands there
    for y, order, words in (
        (84, range(8), "Marian: all sines, then all cosines"),
        (176, turns, "this library: sine, cosine, sine, cosine"),
    ):
        c.text(180, y - 10 if y < 100 else y + 42, words, SMALL)
        for place, i in enumerate(order):
            c.bar(60 + 30 * place, y, 30, 24, i > 3)
            c.text(75 + 30 * place, y + 16, names[i], SMALL)
    for place, i in enumerate(turns):
        c.arrow((75 + 30 * i, 108), (75 + 30 * place, 176), width=1)
    for x, words, reads in ((92, "a matrix that reads states:\nits columns move", True), (268, "", False)):
        for line, part in enumerate((words or "a matrix that writes states:\nits rows move").split("\n")):
            c.text(x, 252 + 14 * line, part, SMALL)
        for left, order in ((x - 66, range(8)), (x + 18, turns)):
            for place, i in enumerate(order):
                across, down = (6 * place, 0) if reads else (0, 6 * place)
                c.bar(left + across, 280 + down, 6 if reads else 48, 48 if reads else 6, i > 3)
        c.arrow((x - 12, 304), (x + 12, 304))
    c.text(180, 352, "inside a head, and inside the network,", SMALL)
    c.text(180, 367, "nothing moves", SMALL)


def tree_to_tokens(c: Canvas) -> None:
    words = dict(zip(("The", "cat", "sat", "on", "mats"), (66, 126, 190, 250, 312), strict=True))
    labels = {"S": (143, 80), "NP": (96, 128), "VP": (214, 128), "PP": (272, 176), "NP ": (312, 224)}
    at = labels | {word: (x, 272) for word, x in words.items()}
    for pair in ("S|NP", "S|VP", "NP|The", "NP|cat", "VP|sat", "VP|PP", "PP|on", "PP|NP ", "NP |mats"):
        (x, y), (to, end) = (at[name] for name in pair.split("|"))
        c.path(f"M{x} {y + 12}L{to} {end - 12}")
    walk = ("S", "NP", "The", "cat", "/NP", "VP", "sat", "PP", "on", "NP ", "mats", "/NP ", "/PP", "/VP", "/S")
    for i, name in enumerate(walk):
        x, y = at[name.removeprefix("/")]
        place, column, row = str(i + 1), 29 + 43 * (i % 8), 352 + 62 * (i // 8)
        if name in words:
            c.text(x, y + 4, name, bold=True)
            c.text(x, y + 20, place, SMALL)
        elif name[0] == "/":
            c.text(x + 23, y + 4, place, SMALL, "start")
        else:
            c.box(x, y, 36, 24, name.strip())
            c.text(x - 23, y + 4, place, SMALL, "end")
        if name in words:
            c.text(column, row + 4, "XX")
        else:
            c.box(column, row, 39, 24, f"{')' if name[0] == '/' else '('}{name.strip(' /')}")
        c.text(column, row + 26, place, SMALL)
    c.arrow((180, 300), (180, 328))
    c.text(188, 316, "written down along the walk", SMALL, "start")


DRAWINGS = (
    transformer,
    recurrence,
    lookup,
    paths,
    self_attention,
    attention,
    heads,
    mask,
    positions,
    shared_matrix,
    add_and_norm,
    encoder_layer,
    decoder_layer,
    shift_right,
    decoding_step,
    then_and_now,
    two_orders,
    tree_to_tokens,
)


def canvas(draw: Callable[[Canvas], None]) -> Canvas:
    """One drawing, with its words."""
    c = Canvas(**WORDS[draw.__name__])
    draw(c)
    return c


def files() -> dict[Path, str]:
    return {FOLDER / f"{draw.__name__}.svg": canvas(draw).svg(f"drawing-{draw.__name__}") for draw in DRAWINGS}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in files().items():
        path.write_text(text, "utf-8")
    print(f"{len(DRAWINGS)} drawings in {FOLDER.name}/")


if __name__ == "__main__":
    main()
