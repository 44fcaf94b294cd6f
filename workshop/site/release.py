"""Pack what a release publishes into _build/release, from the built site; publish nothing.

    python -m workshop.site.release

bump-my-version (`make release`) writes the version and its day where they stand; pyproject.toml says where.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from workshop.site.make_epub import NAME as EPUB
from workshop.site.make_pdf import NAME as PDF
from workshop.site.versions import pack

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
BUILD_PACKAGE = """import sys
from setuptools import build_meta
out = sys.argv[1]  # setuptools writes arguments of its own over these
build_meta.build_sdist(out)
build_meta.build_wheel(out)"""


def version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def notes(log: str, version: str) -> str:
    """What the changelog says of a version."""
    match = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", log, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def build_package(root: Path, out: Path) -> None:
    """Build wheel and sources from a copy, in which setuptools may leave files behind."""
    with tempfile.TemporaryDirectory() as copy:
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(root / name, copy)
        ignored = shutil.ignore_patterns("__pycache__")
        for package in ("transformer_lib", "transformer_run"):
            shutil.copytree(root / package, Path(copy, package), ignore=ignored)
        command = [sys.executable, "-c", BUILD_PACKAGE, str(out.resolve())]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        raise ValueError(f"the package cannot be built:\n{done.stderr[-2000:]}")


def collect(site: Path, out: Path) -> list[Path]:
    """Put everything that a release publishes into a new folder, with its notes and a list of sha256 sums."""
    if not (site / "index.html").exists():
        raise ValueError(f"{site} holds no site: run `make book` first")
    for name, command in ((PDF, "make pdf"), (EPUB, ".venv/bin/python -m workshop.site.make_epub")):
        if not (site / name).exists():
            raise ValueError(f"{site} holds no {name}: run `{command}` first")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    build_package(ROOT, out)
    pack(site, out / f"site-v{version()}.zip")
    pack(ROOT / "notebooks", out / f"notebooks-v{version()}.zip")
    for name in (PDF, EPUB):
        shutil.copyfile(site / name, out / name)
    files = sorted(out.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / "SHA256SUMS").write_text("".join(sums), "utf-8", newline="\n")
    log = (ROOT / "CHANGELOG.md").read_text("utf-8")
    (out / "notes.md").write_text(f"{notes(log, version())}\n", "utf-8")
    return files


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    try:
        for path in collect(BUILD / "html", BUILD / "release"):
            print(f"{path.stat().st_size / 1e6:7.1f} MB  {path}")
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
