"""What the twenty minutes let their readers touch: one head by hand, the places of words, learning beside writing,
what a GPT keeps.

Each place stands in the page in its last state, which is all that readers without scripts, and paper, get.
"""

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from workshop.site.book_first import END, hundred
from workshop.site.filled import filled
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


def head() -> dict[str, Any]:
    """The lookup of attention_as_lookup.md and attention.md, with its query to be turned."""
    weights = weights_of(QUERY)
    rows = {
        word: (KEYS[word], QUERY[0] * KEYS[word][0] + QUERY[1] * KEYS[word][1], weights[word], VALUES[word])
        for word in KEYS
    }
    return {"rows": rows, "answer": [sum(weights[word] * VALUES[word][i] for word in KEYS) for i in (0, 1)]}


def positions() -> dict[str, Any]:
    """What a larger model writes with its places and without them."""
    return {"positions": hundred()["positions"]}


def pairs() -> dict[str, Any]:
    """The rows of learning and of writing, aligned, for one number."""
    german = hundred()["numbers"][SHOWN][1].split()
    sure = [percent for [(_, percent), *_rest] in hundred()["likeliest"]]
    return {"read": [BEGIN, *german], "rows": [*zip([*german, END], sure, strict=True)]}


def stop(name: str, values: Callable[[], dict[str, Any]]) -> SimpleNamespace:
    """A place by the pattern of book_places.py; nothing is loaded on request."""
    page = FOLDER / f"{name}.html"
    files = ("live.css", "stops.css", f"{name}.js")
    return SimpleNamespace(page_html=lambda _static: filled(page.name, **values()), FILES=files, SOURCES=(page, PATH))


HEAD = stop("head_by_hand", head)
PLACES = stop("places_of_words", positions)
WRITING = stop("learning_and_writing", pairs)
KEEPS = stop("what_gpt_keeps", dict)  # the switch below the last drawing, which has both models in it
