"""Build the site from nothing into _build/html; a warning, a failed cell or a broken reference fails the build.

The old pages and the old caches go first: a cache of executed pages does not notice a change in the library, and
a second strict build over old pages passes whatever the first one said. Then all pages are executed, one on each core,
into a cache from which the build takes them; it executes a page that failed once more, and says why it failed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import yaml
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution
from myst_nb.core.read import is_myst_markdown_notebook, read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from nbformat import NotebookNode

from workshop.site.book_index import pages_in_order
from workshop.site.book_site import prepared

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
JUPYTER_BOOK = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
STRICT = ["-W", "-n", "--keep-going"]


def notebook_of(path: Path) -> NotebookNode:
    """The cells of a page as the build will read them."""
    text = prepared(path.read_text("utf-8"), CONFIG["sphinx"]["config"]["book_solutions"])
    markdown = MdParserConfig(enable_extensions=set(CONFIG["parse"]["myst_enable_extensions"]))
    return read_myst_markdown_notebook(text, config=markdown, add_source_map=True, path=path)


def execute(path: Path) -> tuple[NotebookNode, float] | None:
    """The executed cells of a page and the seconds that they took; None if one failed."""
    notebook = notebook_of(path)
    done = single_nb_execution(notebook, str(path.parent), CONFIG["execute"]["timeout"], allow_errors=False)
    return None if done.err else (notebook, done.time)


def execute_pages() -> None:
    """Execute the pages into the cache of the build, as many at once as there are cores."""
    cache = get_cache(BUILD / ".jupyter_cache")
    pages = [path for path in pages_in_order(ROOT) if is_myst_markdown_notebook(path.read_text("utf-8"))]
    with ProcessPoolExecutor() as pool:
        for path, done in zip(pages, pool.map(execute, pages), strict=True):
            print(f"{path.stem}: " + (f"executed in {done[1]:.0f} s" if done else "FAILED"), flush=True)
            if done:
                bundle = CacheBundleIn(done[0], str(path), data={"execution_seconds": done[1]})
                cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    start = time.monotonic()
    shutil.rmtree(BUILD, ignore_errors=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a page has one core
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
