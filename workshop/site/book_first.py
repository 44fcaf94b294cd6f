"""The field on the first pages: a number below a hundred is answered from a record, a larger one by a model."""

import html
import json
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from workshop.site import book_live
from workshop.site.record_hundred import PATH, SHOWN

TEMPLATE = Path(__file__).with_name("first_numbers.html")
SOURCES = (TEMPLATE, PATH)
FILES = """live.css first.css numbers.js tokenizers.js decoding.js download.js runtime.js looks.js
first_numbers.js""".split()
MODEL = "number_words_en_de"  # for the larger numbers
HEAD = 1  # whose lines are drawn first, of two
END = "end"  # the mark at the end of a text, as a reader meets it first
FAINT = 4  # percent; a weight below it gets no line


@cache
def hundred() -> dict[str, Any]:
    """What record_hundred.py found."""
    return json.loads(PATH.read_text("utf-8"))


def model_files() -> dict[str, int]:
    """File → bytes, of what the model for larger numbers needs."""
    runtime = "vendor/onnxruntime/ort.wasm.min.js"
    texts = {f"live/{name}.js": book_live.payloads()[name] for name in ("onnxruntime", MODEL)}
    sizes = {file: len(text.encode()) for file, text in texts.items()}
    return sizes | {runtime: (book_live.STATIC / runtime).stat().st_size}


def lines(weights: list[list[int]]) -> str:
    """A line from each word written to each word read, as thick as its weight; looks.js draws the same."""
    return "".join(
        f'<line x1="0" y1="{10 * column + 5}" x2="100" y2="{10 * row + 5}" stroke-width="{1 + percent * 0.06:g}"'
        f' stroke-opacity="{0.3 + percent * 0.007:.2f}"/>'
        for row, shares in enumerate(weights)
        for column, percent in enumerate(shares)
        if percent >= FAINT
    )


def page_html(static: str) -> str:
    """The field with its first answer, which stands there without scripts, too."""
    english, german, heads = hundred()["numbers"][SHOWN]
    read, written = [*english.split(), END], [*german.split(), END]
    rows = "\n".join(
        f'<li><span class="first-word" lang="de">{html.escape(word)}</span> <span class="first-share">'
        f'<span>looks at</span> <b lang="en">{read[shares.index(max(shares))]}</b>'
        f'<span class="first-percent"> {max(shares)} %</span></span></li>'
        for word, shares in zip(written, heads[HEAD], strict=True)
    )
    content = json.dumps(hundred()["numbers"], ensure_ascii=False, separators=(",", ":"))
    return Template(TEMPLATE.read_text("utf-8")).substitute(
        static=static,
        sizes=json.dumps(
            {"onnxruntime": book_live.runtime_bytes(), MODEL: book_live.wire_bytes(book_live.payloads()[MODEL])}
        ),
        files=json.dumps(model_files(), separators=(",", ":")),
        german=german,
        read="\n".join(f"<li>{html.escape(word)}</li>" for word in read),
        rows=rows,
        lines=lines(heads[HEAD]),
        height=10 * max(len(read), len(written)),
        hundred=content,
    )
