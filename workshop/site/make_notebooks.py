"""Make plain notebooks from the chapters of the book, for Colab and for courses.

    python -m workshop.site.make_notebooks                                  write notebooks/
    python -m workshop.site.make_notebooks --check                          fail if notebooks/ is out of step

The same chapters always give the same bytes: no outputs, no dates, ids from position and content. A directive or
role that is not known here is an error, so that nothing reaches a reader as raw markup.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import nbformat
from nbformat.notebooknode import NotebookNode

from workshop.course.variants import written
from workshop.site.address import Address
from workshop.site.filled import filled
from workshop.site.myst_blocks import Block, PageError
from workshop.site.plain_markdown import Plain, is_run, whole_book

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
BOOK_ONLY = "book-only"  # the tag of a cell that belongs to the book and to no notebook
# A chapter's task of projects/build_the_transformer: the command, and the cell that runs it beside the notebook.
TASK = re.compile(r"python -m pytest -k (?P<tests>test_\d+_)")
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# The formatter may break the line anywhere.
RECORDED = re.compile(r'Path\(\s*"\.\./(experiments/results/[\w/-]+\.json)"\s*\)\.read_text\(\s*"utf-8"\s*\)')


def with_records(source: str, root: Path) -> str:
    """The code with each recorded result that it reads from a file written out: a notebook stands alone."""

    def text(match: re.Match[str]) -> str:
        recorded = json.loads((root / match[1]).read_text("utf-8"))
        compact = json.dumps(recorded, ensure_ascii=False, separators=(",", ":")).replace("},{", "},\n{")
        if json.loads(compact) != recorded or '"""' in compact:
            raise PageError(f"{match[1]} cannot be written into a notebook")
        return f'r"""{compact}"""'

    return RECORDED.sub(text, source)


def pieces(plain: Plain) -> Iterator[Block | NotebookNode | None]:
    """The page without its solutions: code as cells, everything else as blocks; None ends a cell of text."""
    for block in plain.page.outside("solution"):
        if block.kind == "break":
            yield None
        elif block.name == "code-cell":
            tags = block.options.get("tags") or []
            source = with_records(plain.fitting(block.text, block.line).strip("\n"), plain.root)
            if "numbers" in tags:
                source = written(source)
            metadata = {"tags": tags} if tags else {}
            yield None if BOOK_ONLY in tags else nbformat.v4.new_code_cell(source, metadata=metadata)
        elif is_run(block):
            path, source = plain.source(block)
            yield nbformat.v4.new_code_cell(f"# From {path}\n{source}")
        else:
            yield block
            if block.kind == "fence" and (task := TASK.fullmatch(block.text)):
                check = filled("notebook_check.py.j2", address=plain.address, tests=task["tests"])
                yield nbformat.v4.new_code_cell(check.rstrip())


def cells_of(plain: Plain) -> Iterator[NotebookNode]:
    """The cells of a page's notebook; the blocks between two cells of code are one cell of text."""
    for _, run in groupby(pieces(plain), key=lambda piece: isinstance(piece, Block)):
        found = [*run]
        yield from (piece for piece in found if isinstance(piece, NotebookNode))
        if text := plain.render([piece for piece in found if isinstance(piece, Block)]):
            yield nbformat.v4.new_markdown_cell(text)


def installation(address: Address) -> str:
    """The code of the cell that installs the package where it is missing."""
    return filled("notebook_install.py.j2", address=address).rstrip()


def opening(plain: Plain, has_code: bool) -> Iterator[NotebookNode]:
    """The cells before the chapter: where it comes from, and the installation if there is anything to run."""
    page, address = plain.page, plain.address
    link = f"[{plain.inline(page.title, 1)}]({address.site}{page.name}.html)"
    origin = f"*Made from the chapter {link} of The Executable Transformer: propose changes there, not in this file.*"
    yield nbformat.v4.new_markdown_cell(origin)
    if has_code:
        yield nbformat.v4.new_code_cell(installation(address))


def notebook_text(plain: Plain) -> str:
    """The notebook of a page as the text of its file."""
    cells = [*cells_of(plain)]
    cells = [*opening(plain, any(cell.cell_type == "code" for cell in cells)), *cells]
    for i, cell in enumerate(cells):
        cell["id"] = f"cell-{i:03d}-{hashlib.sha256(cell.source.encode()).hexdigest()[:8]}"
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=METADATA)
    nbformat.validate(notebook)
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def all_notebooks(root: Path = ROOT) -> dict[str, str]:
    """File name → text, for every page of the book."""
    return {f"{name}.ipynb": notebook_text(plain) for name, plain in whole_book(root).items()}


def out_of_step(wanted: dict[str, str], folder: Path) -> list[str]:
    """What differs between the notebooks of a folder and those that the chapters give."""
    existing = {path.name: path.read_text("utf-8") for path in folder.glob("*.ipynb")}
    changed = [f"{name} is out of step" for name in wanted if name in existing and existing[name] != wanted[name]]
    missing = [f"{name} is missing" for name in wanted if name not in existing]
    return sorted(changed + missing + [f"{name} belongs to no chapter" for name in existing if name not in wanted])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a notebook is out of step")
    is_check = parser.parse_args().check
    try:
        wanted = all_notebooks(ROOT)
    except PageError as error:
        raise SystemExit(f"book/{error}") from None
    for name, text in [] if is_check else wanted.items():
        (NOTEBOOKS / name).write_text(text, "utf-8")
    if differences := out_of_step(wanted, NOTEBOOKS):
        raise SystemExit(f"notebooks: {'; '.join(differences)}. Run `make notebooks`; delete what is left over.")
    print(f"{len(wanted)} notebooks in notebooks/, in step with the chapters")


if __name__ == "__main__":
    main()
