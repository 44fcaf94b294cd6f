"""Build the site from nothing into _build/html; a warning, a failed cell or a broken reference fails the build.

The old pages and the old caches go first: a cache of executed pages does not notice a change in the library, and
a second strict build over old pages passes whatever the first one said.
"""

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
JUPYTER_BOOK = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
STRICT = ["-W", "-n", "--keep-going"]


def size_in_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    start = time.monotonic()
    shutil.rmtree(BUILD, ignore_errors=True)
    command = [sys.executable, "-c", JUPYTER_BOOK, "build", ".", *STRICT]
    result = subprocess.run(command, cwd=ROOT, check=False)
    seconds = time.monotonic() - start
    page = BUILD / "html" / "index.html"
    if result.returncode or not page.exists():
        raise SystemExit(f"The book did not build ({seconds:.0f} s): see the warnings above.")
    print(f"\nThe book is built: {seconds:.0f} s, {size_in_mb(BUILD / 'html'):.0f} MB.")
    print(f"Open {page.as_uri()}\nor run `make serve`.")


if __name__ == "__main__":
    main()
