"""Run every page of the book with its seeds moved, and list the assertions that fail.

    python experiments/other_seeds.py                      moved by 1, 2, 3, 4 and 5; written down
    python experiments/other_seeds.py --moved 11 --pages "attention layers"

One page at a time, each in a process of its own; all pages take about as long as `make book`. Fewer pages than all
are a trial: they are printed and not written down.
"""

import argparse
import multiprocessing
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from workshop.course.other_seeds import failures
from workshop.lab.provenance import ROOT, provenance, write_result
from workshop.site.book_index import pages_in_order

CODE = "```{code-cell}"


def page_run(path: Path, by: int) -> list[str]:
    """What fails on a page; one thread, and no warnings."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    return failures(path, by)


def moved(pages: list[Path], by: int) -> dict[str, Any]:
    """What fails on each page with its seeds moved `by` so much, and how long all pages took."""
    failed, started = {}, time.monotonic()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        for path in pages:
            if found := pool.submit(page_run, path, by).result():
                failed[path.stem] = found
            print(f"moved by {by}, {path.stem}: {len(found)} fail", *found, sep="\n    ", flush=True)
    return {"moved_by": by, "failed": failed, "seconds": round(time.monotonic() - started)}


def main() -> None:
    """Run what the command line asks for."""
    every = [path for path in pages_in_order(ROOT) if CODE in path.read_text("utf-8")]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moved", default="1 2 3 4 5", help="by how much, for each time; default: %(default)s")
    parser.add_argument("--pages", default="", help="default: all that have code")
    arguments = parser.parse_args()
    started, wanted = time.monotonic(), arguments.pages.split()
    if unknown := {*wanted} - {path.stem for path in every}:
        parser.error(f"no page with code named {', '.join(sorted(unknown))}")
    pages = [path for path in every if not wanted or path.stem in wanted]
    runs = [moved(pages, int(by)) for by in arguments.moved.split()]
    if not wanted:
        what = "the pages of the book with every literal seed moved: the assertions that fail"
        result = {"what": what, "pages": [path.stem for path in pages], "runs": runs}
        write_result("other_seeds", result | provenance(0, time.monotonic() - started))
    sys.exit(any(run["failed"] for run in runs))


if __name__ == "__main__":
    main()
