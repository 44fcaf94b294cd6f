"""What the twenty minutes let their readers touch: one head by hand, the places of words, learning beside writing,
what a GPT keeps.

Each place stands in the page in its last state, which is all that readers without scripts, and paper, get.
"""

import html
import math
from collections.abc import Callable
from pathlib import Path
from string import Template
from types import SimpleNamespace

from workshop.site.book_first import END, hundred
from workshop.site.record_hundred import PATH, SHOWN

FOLDER = Path(__file__).parent
KEYS = {"forty": (0, 1), "seven": (1, 0), "end": (0, 0)}
VALUES = {"forty": (0, 4), "seven": (7, 0), "end": (0, 0)}
QUERY = (3, 0)
BEGIN = "begin"


def weights_of(query: tuple[float, float]) -> dict[str, float]:
    """Word → its weight by equation (1), with d_k = 2."""
    powers = {word: math.exp((query[0] * x + query[1] * y) / math.sqrt(2)) for word, (x, y) in KEYS.items()}
    return {word: power / sum(powers.values()) for word, power in powers.items()}


def head_html(_static: str) -> str:
    """The lookup of attention_as_lookup.md and attention.md, with its query to be turned."""
    weights = weights_of(QUERY)
    rows = "\n".join(
        f'<tr data-key="{KEYS[word]}" data-value="{VALUES[word]}"><th scope="row" lang="en">{word}</th>'
        f"<td>{KEYS[word]}</td><td>{QUERY[0] * KEYS[word][0] + QUERY[1] * KEYS[word][1]}</td>"
        f'<td class="hand-weight" style="--share: {100 * weight:.0f}%">{weight:.2f}</td><td>{VALUES[word]}</td></tr>'
        for word, weight in weights.items()
    )
    answer = [sum(weights[word] * VALUES[word][i] for word in KEYS) for i in (0, 1)]
    template = Template((FOLDER / "head_by_hand.html").read_text("utf-8"))
    parts = " + ".join(f"{weight:.2f}·{VALUES[word]}" for word, weight in weights.items())
    return template.substitute(rows=rows, sum=parts, answer="({:.1f}, {:.1f})".format(*answer))


def places_html(_static: str) -> str:
    """What a larger model writes with its places and without them."""
    rows = "\n".join(
        f'<tr><th scope="row" lang="en">{text}</th><td lang="de" class="places-on">{whole}</td>'
        f'<td lang="de" class="places-off{" is-other" * (whole != without)}">{without}</td></tr>'
        for text, (whole, without) in hundred()["positions"].items()
    )
    return Template((FOLDER / "places_of_words.html").read_text("utf-8")).substitute(rows=rows)


def chips(words: list[str], seen: int) -> str:
    """Words of which the first ones may be seen."""
    return "".join(
        f'<span class="chip" lang="de">{html.escape(word)}</span>'
        if i < seen
        else f'<span class="chip chip-hidden" lang="de"><s>{html.escape(word)}</s></span>'
        for i, word in enumerate(words)
    )


def writing_html(_static: str) -> str:
    """The rows of learning and of writing, aligned, for one number."""
    german = hundred()["numbers"][SHOWN][1].split()
    read, wanted = [BEGIN, *german], [*german, END]
    rows = []
    for i, (word, [(_, percent), *_rest]) in enumerate(zip(wanted, hundred()["likeliest"], strict=True)):
        rows.append(
            f'<li><div class="pair-left">{chips(read, i + 1)}<span class="pair-arrow">→</span>'
            f'<b lang="de">{word}</b></div>\n'
            f'<div class="pair-right">{chips(read[: i + 1], i + 1)}<span class="pair-arrow">→</span>'
            f'<b lang="de">{word}</b><span class="pair-sure"><i class="pair-bar" style="--share: {percent}%"></i>'
            f"{percent} %</span></div></li>"
        )
    template = Template((FOLDER / "learning_and_writing.html").read_text("utf-8"))
    return template.substitute(rows="\n".join(rows))


def keeps_html(_static: str) -> str:
    """The switch below the last drawing, which has both models in it."""
    return (FOLDER / "what_gpt_keeps.html").read_text("utf-8")


def stop(write: Callable[[str], str], name: str) -> SimpleNamespace:
    """A place by the pattern of book_places.py; nothing is loaded on request."""
    return SimpleNamespace(
        page_html=write, FILES=("live.css", "stops.css", f"{name}.js"), SOURCES=(FOLDER / f"{name}.html", PATH)
    )


HEAD = stop(head_html, "head_by_hand")
PLACES = stop(places_html, "places_of_words")
WRITING = stop(writing_html, "learning_and_writing")
KEEPS = stop(keeps_html, "what_gpt_keeps")
