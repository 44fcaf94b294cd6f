"""The translator that runs in the reader's browser: its place on the page, and the scripts that it loads on request."""

import base64
import gzip
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from transformer_lib.data import load_pairs
from transformer_run.export.page import page_content
from transformer_run.translator import Translator
from workshop.site.filled import filled

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "book" / "_static"
RESULTS = ROOT / "experiments" / "results"
RUNTIME = STATIC / "vendor" / "onnxruntime"
TEMPLATE = Path(__file__).with_name("live_translator.html")
SOURCES = (TEMPLATE, STATIC / "live" / "provenance.json")
ORT = "vendor/onnxruntime/ort.wasm.min.js"
FILES = """live.css numbers.js tokenizers.js decoding.js download.js runtime.js heat_maps.js steps.js trees.js
hundred.js surgery.js live.js""".split()
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
        found[name] = script(name, page_content(Translator.load(name), graph, hundred(name)))
    return found


@cache
def wire_bytes(text: str) -> int:
    """What a server that compresses sends for a script."""
    return len(gzip.compress(text.encode(), 6, mtime=0))


def parts(texts: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Of scripts given as name → text: the bytes that a server sends for each, and those of each of its files."""
    files = {name: {f"live/{name}.js": text} for name, text in texts.items()}
    if "onnxruntime" in files:
        files["onnxruntime"][ORT] = (STATIC / ORT).read_text("utf-8")
    return {
        name: {
            "sent": sum(map(wire_bytes, found.values())),
            "files": {file: len(text.encode()) for file, text in found.items()},
        }
        for name, found in files.items()
    }


def page_html(static: str) -> str:
    """The place of the translator, with the size of everything that it may load."""
    return filled(TEMPLATE.name, static=static, translators=TRANSLATORS, parts=parts(payloads()))
