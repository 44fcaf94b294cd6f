"""Copy the pinned browser libraries from a node_modules folder into book/_static/vendor and tests/site/vendor.

    npm install --ignore-scripts
    python -m workshop.site.vendor_js node_modules

Building the book needs no node: the copies are committed. Run this after a change of a version in package.json.
"""

import argparse
import gzip
import hashlib
import json
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENDOR = ROOT / "book" / "_static" / "vendor"
FILES = {
    "vega/build/vega.min.js": "vega.min.js",
    "vega-lite/build/vega-lite.min.js": "vega-lite.min.js",
    "vega-embed/build/vega-embed.min.js": "vega-embed.min.js",
    "onnxruntime-web/dist/ort.wasm.min.js": "onnxruntime/ort.wasm.min.js",
    "onnxruntime-web/dist/ort-wasm-simd-threaded.mjs": "onnxruntime/ort-wasm-simd-threaded.mjs",
}
# Kept compressed: 11 MB become 3 MB, and the browser unpacks it.
COMPRESSED = {
    "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm": "onnxruntime/ort-wasm-simd-threaded.wasm.gz",
}
NOTICE = """\
The WebAssembly file of onnxruntime-web also holds parts of other projects under permissive licences. They are listed in
ThirdPartyNotices.txt of its repository, https://github.com/microsoft/onnxruntime.
"""
HOLDERS = {"onnxruntime-web": "Microsoft Corporation", "onnxruntime-common": "Microsoft Corporation"}
# MathJax in one file of the parts that the pages use. The ready-made combinations hold the menu as well, which
# weighs as much as half of the rest and is switched off here.
MATHJAX = ("startup", "core", "input/tex", "output/chtml", "output/chtml/fonts/tex", "a11y/assistive-mml")
FONTS = "mathjax/es5/output/chtml/fonts/woff-v2"
# What only the tests of the pages use; it is never served.
TEST_VENDOR = ROOT / "tests" / "site" / "vendor"
TEST_FILES = {"axe-core/axe.min.js": "axe.min.js", "axe-core/LICENSE": "LICENSE-axe.txt"}
SOURCE_MAP = re.compile(rb"\n?//# sourceMappingURL=\S+\s*$")


def manifest(package: Path) -> dict:
    return json.loads((package / "package.json").read_text("utf-8"))


def check_versions(modules: Path, pins: dict[str, str]) -> None:
    """Stop if node_modules does not hold exactly the versions that package.json names."""
    for name, pin in pins.items():
        version = manifest(modules / name)["version"]
        if version != pin:
            raise SystemExit(f"{name}: package.json names {pin}, {modules} holds {version}")


def copy_files(modules: Path) -> None:
    for source, target in FILES.items():
        destination = VENDOR / target
        destination.parent.mkdir(parents=True, exist_ok=True)
        # A source map that is not there makes developer tools report a failed request.
        destination.write_bytes(SOURCE_MAP.sub(b"\n", (modules / source).read_bytes()))
    for source, target in COMPRESSED.items():
        (VENDOR / target).write_bytes(gzip.compress((modules / source).read_bytes(), 9, mtime=0))
    bundle_mathjax(modules / "mathjax" / "es5")
    fonts = VENDOR / "mathjax/output/chtml/fonts/woff-v2"
    fonts.mkdir(parents=True, exist_ok=True)
    for font in sorted((modules / FONTS).glob("*.woff")):
        shutil.copyfile(font, fonts / font.name)


def bundle_mathjax(parts: Path) -> None:
    """Join the parts; the last line tells MathJax's loader that it need not fetch them."""
    sources = [SOURCE_MAP.sub(b"", (parts / f"{name}.js").read_bytes()).rstrip() for name in MATHJAX]
    loaded = json.dumps(MATHJAX[1:]).encode()
    joined = b"\n".join([*sources, b"MathJax.loader.preLoad(..." + loaded + b");\n"])
    target = VENDOR / "mathjax" / "tex-chtml.js"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(joined)


def copy_test_files(modules: Path) -> None:
    TEST_VENDOR.mkdir(exist_ok=True)
    for source, target in TEST_FILES.items():
        shutil.copyfile(modules / source, TEST_VENDOR / target)


def bundled(modules: Path, names: list[str]) -> list[str]:
    """The packages and everything they depend on: the minified files contain parts of them."""
    seen: set[str] = set()
    queue = list(names)
    while queue:
        name = queue.pop()
        if name not in seen and (modules / name).is_dir():
            seen.add(name)
            queue += manifest(modules / name).get("dependencies", {})
    return sorted(seen)


def mit(holder: str) -> str:
    """The MIT licence, which is ours too, for a package that comes without its text."""
    return re.sub(r"(Copyright \(c\)).*", rf"\1 {holder}", (ROOT / "LICENSE").read_text("utf-8")).strip()


def licences(modules: Path, names: list[str]) -> str:
    """Every licence text once, headed by the packages under it."""
    packages_of: dict[str, list[str]] = {}
    for name in bundled(modules, names):
        package = manifest(modules / name)
        texts = sorted(path for path in (modules / name).iterdir() if path.stem.upper() in {"LICENSE", "LICENCE"})
        missing = mit(HOLDERS[name]) if name in HOLDERS else f"({package.get('license')}; no licence file)"
        text = texts[0].read_text("utf-8").strip() if texts else missing
        packages_of.setdefault(text, []).append(f"{name} {package['version']} ({package.get('license')})")
    parts = [f"{', '.join(packages)}\n\n{text}\n" for text, packages in packages_of.items()]
    return f"\n{'=' * 80}\n\n".join(parts)


def checksums() -> str:
    """The lines of SHA256SUMS, in the format that `sha256sum --check` reads."""
    files = sorted(path for path in VENDOR.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(VENDOR).as_posix()}\n" for path in files
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", type=Path, help="the node_modules folder made by npm")
    modules = parser.parse_args().modules
    pins = manifest(ROOT)["dependencies"]
    check_versions(modules, pins | manifest(ROOT)["devDependencies"])
    shutil.rmtree(VENDOR, ignore_errors=True)
    copy_files(modules)
    copy_test_files(modules)
    (VENDOR / "LICENSES.txt").write_text(licences(modules, list(pins)) + f"\n{'=' * 80}\n\n{NOTICE}", "utf-8")
    (VENDOR / "SHA256SUMS").write_text(checksums(), "utf-8")


if __name__ == "__main__":
    main()
