"""Build the site from nothing into _build/html; a warning, a failed cell or a broken reference fails the build.

The old pages and the old caches go first: a cache of executed pages does not notice a change in the library, and
a second strict build over old pages passes whatever the first one said. Then all pages are executed, one on each core,
into a cache from which the build takes them; it executes a page that failed once more, and says why it failed.
"""

import argparse
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml
from jupyter_cache import get_cache
from jupyter_cache.executors import load_executor
from myst_nb.core.read import is_myst_markdown_notebook

from workshop.site.book_index import pages_in_order

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
JUPYTER_BOOK = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
STRICT = ["-W", "-n", "--keep-going"]


def execute_pages() -> None:
    """Execute the pages into the cache of the build, as many at once as there are cores."""
    cache = get_cache(BUILD / ".jupyter_cache")
    for path in pages_in_order(ROOT):
        if is_myst_markdown_notebook(path.read_text("utf-8")):
            cache.add_nb_to_project(str(path), read_data={"name": "myst_nb_md", "type": "plugin"})
    logger = logging.getLogger(__name__)
    logger.setLevel(logging.INFO)  # the names of the pages
    load_executor("local-parallel", cache, logger).run_and_cache(timeout=CONFIG["execute"]["timeout"])


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    start = time.monotonic()
    shutil.rmtree(BUILD, ignore_errors=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a page has one core
    if CONFIG["sphinx"]["config"]["book_solutions"]:  # without, a page has other cells: the build executes it
        execute_pages()
    command = [sys.executable, "-c", JUPYTER_BOOK, "build", ".", *STRICT]
    result = subprocess.run(command, cwd=ROOT, check=False)
    seconds = time.monotonic() - start
    page = BUILD / "html" / "index.html"
    if result.returncode or not page.exists():
        raise SystemExit(f"The book did not build ({seconds:.0f} s): see the warnings above.")
    size = sum(path.stat().st_size for path in page.parent.rglob("*") if path.is_file()) / 1e6
    print(f"\nThe book is built: {seconds:.0f} s, {size:.0f} MB.")
    print(f"Open {page.as_uri()}\nor run `make serve`.")


if __name__ == "__main__":
    main()
