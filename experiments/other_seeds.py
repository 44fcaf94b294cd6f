"""Run pages of the book with their seeds moved, and list the assertions that fail.

    python experiments/other_seeds.py                                       all pages, moved by 1, 2, 3, 4 and 5
    python experiments/other_seeds.py --moved 11 --pages "attention layers"
    python experiments/other_seeds.py --record                              and write down what was run, each time

One page at a time, each in a process of its own; all pages take about as long as `make book`.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from workshop.course.other_seeds import failures
from workshop.lab.experiment import processes
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
    with processes() as pool:
        for path in pages:
            if found := pool.submit(page_run, path, by).result():
                failed[path.stem] = found
            print(f"moved by {by}, {path.stem}: {len(found)} fail", *found, sep="\n    ", flush=True)
    names = [path.stem for path in pages]
    return {"moved_by": by, "pages": names, "failed": failed, "seconds": round(time.monotonic() - started)}


def main() -> None:
    """Run what the command line asks for; status 1 if an assertion fails."""
    every = {path.stem: path for path in pages_in_order(ROOT) if CODE in path.read_text("utf-8")}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moved", default="1 2 3 4 5", help="by how much, for each time; default: %(default)s")
    parser.add_argument("--pages", default=" ".join(every), help="default: all that have code")
    parser.add_argument("--record", action="store_true", help="write experiments/results/other_seeds.json")
    arguments = parser.parse_args()
    if unknown := set(arguments.pages.split()) - every.keys():
        parser.error(f"no page with code is named {', '.join(sorted(unknown))}; there are: {', '.join(every)}")
    what = "pages of the book with their seeds moved: the assertions that fail"
    started, runs = time.monotonic(), []
    for by in arguments.moved.split():
        runs.append(moved([every[name] for name in arguments.pages.split()], int(by)))
        if arguments.record:
            origin = provenance(0, time.monotonic() - started)
            write_result("other_seeds", {"what": what, "pages_with_code": [*every], "runs": runs} | origin)
    sys.exit(any(run["failed"] for run in runs))


if __name__ == "__main__":
    main()
