"""The translator that runs in the reader's browser: its place on the page, and the scripts that it loads on request.

The repository holds the exported models and the runtime as they come. A page opened from a file may load scripts but
may not fetch, so the build writes each of them as a script, compressed and in letters: one way for servers and files.
"""

import base64
import gzip
import html
import json
import random
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from transformer_lib.data import load_pairs
from transformer_lib.interop.page import page_content
from transformer_lib.run.translator import PRETRAINED, Translator

LOGGER = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "book" / "_static"
RESULTS = ROOT / "experiments" / "results"
RUNTIME = STATIC / "vendor" / "onnxruntime"
TEMPLATE = Path(__file__).with_name("live_translator.html")
# For each place, the styles and the scripts of a page on which it stands.
PLACES = {
    "live-translator": (
        ("live",),
        ("numbers", "tokenizers", "decoding", "runtime", "heat_maps", "steps", "trees", "hundred", "surgery", "live"),
    ),
    "live-training": (
        ("live", "training"),
        ("runtime", "heat_maps", *(f"training_{name}" for name in ("task", "run", "chart", "view", "page"))),
    ),
    "live-stepper": (("live", "stepper"), ("runtime", "heat_maps", "step_values", "stepper")),
}
TRANSLATORS = {
    "number_words_en_de": "Number words, English to German",
    "tatoeba_de_en": "Everyday sentences, German to English",
    "tatoeba_en_de": "Everyday sentences, English to German",
    "parser_en_en": "Short English sentences to their trees",
}


def script(name: str, content: dict[str, Any]) -> str:
    written = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return f"LiveTranslator.receive({json.dumps(name)},{written});\n"


def letters(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def hundred(name: str) -> dict[str, Any]:
    """A hundred test sentences, each with what the model should write, and the words that say what is counted."""
    recorded = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    if "examples" not in recorded:
        pairs = random.Random(0).sample(load_pairs("number_words", "test", "en", "de"), 100)
        return {"pairs": pairs, "of": "numbers of the test part", "counted": "are right"}
    pairs = [(example["source"], example["hypothesis"]) for example in recorded["examples"]]
    where = "Tatoeba's test part (CC-BY 2.0)" if name.startswith("tatoeba") else "the parser's test part"
    counted = "come out token for token as the untouched model writes them"
    return {"pairs": pairs, "of": f"sentences of {where}", "counted": counted}


@cache
def payloads() -> dict[str, str]:
    """Name → text of each script that the page loads on request: the runtime, and every translator."""
    runtime = {
        "module": (RUNTIME / "ort-wasm-simd-threaded.mjs").read_text("utf-8"),
        "wasm": letters((RUNTIME / "ort-wasm-simd-threaded.wasm.gz").read_bytes()),
    }
    found = {"onnxruntime": script("onnxruntime", runtime)}
    for name in TRANSLATORS:
        graph = (STATIC / "live" / f"{name}.onnx.gz").read_bytes()
        found[name] = script(name, page_content(Translator.untrained(PRETRAINED / name), graph, hundred(name)))
    return found


@cache
def download_bytes() -> dict[str, int]:
    """What a server that compresses sends for each translator alone, and for the runtime."""
    sizes = {name: len(gzip.compress(text.encode(), 6, mtime=0)) for name, text in payloads().items()}
    sizes["onnxruntime"] += len(gzip.compress((RUNTIME / "ort.wasm.min.js").read_bytes(), 6, mtime=0))
    return sizes


def page_html(static: str) -> str:
    """The place of the translator, with the size of everything that it may load."""
    sizes = download_bytes()
    choices = "\n".join(
        f'<label><input type="radio" name="live-name" value="{name}" data-bytes="{sizes[name]}"'
        f"{' checked' if i == 0 else ''}> {html.escape(words)} ({sizes[name] / 1e6:.1f} MB)</label>"
        for i, (name, words) in enumerate(TRANSLATORS.items())
    )
    template = Template(TEMPLATE.read_text("utf-8"))
    command = "python -m transformer_lib export FOLDER FILE --to page"
    own = f'You write it with <code>{command}</code>: <a href="your_own_corpus.html">Your own corpus</a>.'
    files = ", ".join(f'<a href="{static}live/{name}.onnx.gz">{name}.onnx.gz</a>' for name in TRANSLATORS)
    return template.substitute(static=static, choices=choices, files=files, own=own, runtime_bytes=sizes["onnxruntime"])


def placed(directive: SphinxDirective, files: Iterable[Path], page_html: Callable[..., str], *kind: str) -> list[Any]:
    """The HTML of a live part, for the page on which the directive stands; the files are those it is made from."""
    for file in files:
        directive.env.note_dependency(str(file))
    depth = directive.env.docname.count("/")
    return [nodes.raw("", page_html("../" * depth + "_static/", *kind), format="html")]


class LiveTranslator(SphinxDirective):
    """`{live-translator}`: the translator; the notebooks link to it."""

    def run(self) -> list[nodes.Node]:
        return placed(self, (TEMPLATE, STATIC / "live" / "provenance.json"), page_html)


def add_scripts(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Load the scripts and styles of the live parts that stand on the page."""
    for place, (styles, scripts) in PLACES.items():
        if f'id="{place}"' in context.get("body", ""):
            for name in styles:
                app.add_css_file(f"live/{name}.css")
            for name in scripts:
                app.add_js_file(f"live/{name}.js", loading_method="defer")
