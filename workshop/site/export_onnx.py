"""Export the translators that come with the package for the page on which they run in the browser.

    python -m workshop.site.export_onnx                     all of them, into book/_static/live/, gzipped
    python -m workshop.site.export_onnx tatoeba_de_en       one

The graphs are those of `transformer_run/export/page.py`, with the packed weights as they stand in the package.
"""

import argparse
import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from transformer_run.export.page import LONGEST, page_graph
from transformer_run.translator import MODEL, PRETRAINED, Translator, pretrained_names
from workshop.lab.provenance import origin

ROOT = Path(__file__).resolve().parents[2]
LIVE = ROOT / "book" / "_static" / "live"


def export(name: str) -> bytes:
    """The ONNX file of a translator that comes with the package."""
    return page_graph(Translator.load(name).model, load_file(PRETRAINED / name / MODEL))


def stored(name: str) -> Path:
    """The exported file of a translator, gzipped: its integers take a sixth less so, and the page loads them so."""
    return LIVE / f"{name}.onnx.gz"


def sha256(content: bytes) -> str:
    """Of a file, as sha256sum writes it."""
    return hashlib.sha256(content).hexdigest()


def keep(path: Path, entry: str, content: bytes, origin: dict[str, Any]) -> None:
    """Write an exported file, and into the record beside it where it came from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, 9, mtime=0))
    record = path.with_name("provenance.json")
    known = json.loads(record.read_text("utf-8")) if record.exists() else {}
    record.write_text(json.dumps(known | {entry: origin}, indent=1) + "\n", "utf-8")
    print(f"{path.name}: {path.stat().st_size / 1e3:.1f} kB", flush=True)


def names_given(about: str, known: Sequence[str]) -> list[str]:
    """The names on the command line, all that are known if there are none."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)} (default: all)")
    names = parser.parse_args().names
    if unknown := {*names} - {*known}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return names or [*known]


def main() -> None:
    for name in names_given(__doc__ or "", pretrained_names()):
        exported = export(name)
        about = origin(
            f"python -m workshop.site.export_onnx {name}",
            ("torch", "onnx", "onnxscript"),
            weights=f"transformer_run/pretrained/{name}/{MODEL}",
            weights_sha256=sha256((PRETRAINED / name / MODEL).read_bytes()),
            sha256=sha256(exported),
            bytes=len(exported),
            longest=LONGEST,
        )
        keep(stored(name), name, exported, about)


if __name__ == "__main__":
    main()
