"""The field on the first pages: a number below a hundred is answered from a record, a larger one by a model."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from workshop.site import book_live
from workshop.site.filled import filled
from workshop.site.record_hundred import PATH, SHOWN

TEMPLATE = Path(__file__).with_name("first_numbers.html")
SOURCES = (TEMPLATE, PATH)
FILES = """live.css first.css numbers.js tokenizers.js decoding.js download.js runtime.js looks.js
first_numbers.js""".split()
MODEL = "number_words_en_de"  # for the larger numbers
HEAD = 1  # whose lines are drawn first, of two
END = "end"  # the mark at the end of a text, as a reader meets it first
FAINT = 4  # percent; a weight below it gets no line; looks.js draws the same


@cache
def hundred() -> dict[str, Any]:
    """What record_hundred.py found."""
    return json.loads(PATH.read_text("utf-8"))


def page_html(static: str) -> str:
    """The field with its first answer, which stands there without scripts, too."""
    english, german, heads = hundred()["numbers"][SHOWN]
    return filled(
        TEMPLATE.name,
        static=static,
        parts=book_live.parts({name: book_live.payloads()[name] for name in ("onnxruntime", MODEL)}),
        german=german,
        read=[*english.split(), END],
        rows=[*zip([*german.split(), END], heads[HEAD], strict=True)],
        faint=FAINT,
        hundred=hundred()["numbers"],
    )
