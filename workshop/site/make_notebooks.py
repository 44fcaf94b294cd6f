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
from pathlib import Path

import nbformat
from nbformat.notebooknode import NotebookNode

from workshop.site.address import Address
from workshop.site.book_index import Index, Page
from workshop.site.myst_blocks import Block, PageError
from workshop.site.plain_markdown import Plain, whole_book

ROOT = Path(__file__).resolve().parents[2]
BOOK_ONLY = "book-only"  # the tag of a cell that belongs to the book and to no notebook
INSTALL = """\
# Where the book's package is missing, as on Colab, install it. Packages that are already there stay as they are.
from importlib.metadata import PackageNotFoundError, version

try:
    version("executable-transformer")  # by its distribution: another package has the same import name
except PackageNotFoundError:
    %pip install --quiet "executable-transformer[viz,text] @ git+{repository}@{branch}\""""
# A chapter's task of projects/build_the_transformer: the command, and the cell that runs it beside the notebook.
TASK = re.compile(r"python -m pytest -k (?P<tests>test_\d+_)")
CHECK = """\
# The same check from here. Where the project is not there yet, as on Colab, it is cloned; open its my_transformer.py
# from the list of files, or upload yours into its folder.
import sys
from pathlib import Path

project = Path("../projects/build_the_transformer")
if not project.exists():
    project = Path("{name}/projects/build_the_transformer")
if not project.exists():
    !git clone --quiet --depth 1 {repository}
!"{{sys.executable}}" -m pytest -q -k {tests} "{{project}}\""""
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


# The formatter may break the line anywhere.
RECORDED = re.compile(r'Path\(\s*"\.\./(experiments/results/[\w/-]+\.json)"\s*\)\.read_text\(\s*"utf-8"\s*\)')
# A result that may not be recorded yet, as a chapter asks for it.
MAY_BE_RECORDED = re.compile(
    r'(?P<read>json\.loads\(\s*Path\(\s*"\.\./(?P<file>experiments/results/[\w/-]+\.json)"\s*\)'
    r'\.read_text\(\s*"utf-8"\s*\)\s*\))'
    r'\s+if\s+Path\(\s*"\.\./(?P=file)"\s*\)\.exists\(\)\s+else\s+None'
)


def with_records(source: str, root: Path) -> str:
    """The code with each recorded result that it reads from a file written out: a notebook stands alone.

    A result that is not recorded yet stays as it is: in book and notebook alike the code meets a missing file.
    """

    def text(match: re.Match[str]) -> str:
        if not (root / match[1]).exists():
            return match[0]
        recorded = json.loads((root / match[1]).read_text("utf-8"))
        compact = json.dumps(recorded, ensure_ascii=False, separators=(",", ":")).replace("},{", "},\n{")
        if json.loads(compact) != recorded or '"""' in compact:
            raise PageError(f"{match[1]} cannot be written into a notebook")
        return f'r"""{compact}"""'

    def read_or_none(match: re.Match[str]) -> str:
        return match["read"] if (root / match["file"]).exists() else "None  # not yet recorded"

    return RECORDED.sub(text, MAY_BE_RECORDED.sub(read_or_none, source))


def is_run(block: Block) -> bool:
    """Whether a listing becomes a code cell: source that the package does not install, for the reader to run."""
    return block.name == "literalinclude" and "run" in str(block.options.get("class", "")).split()


class Converter:
    """Turns one page into the cells of a notebook."""

    def __init__(self, page: Page, plain: Plain):
        self.page, self.plain = page, plain
        self.cells: list[NotebookNode] = []
        self.pending: list[Block] = []

    def convert(self) -> list[NotebookNode]:
        for block in self._kept():
            if block.kind == "break":
                self._flush()
            elif block.name == "code-cell":
                self._flush()
                self._code(block)
            elif is_run(block):
                self._flush()
                path, source = self.plain.source(block)
                self.cells.append(nbformat.v4.new_code_cell(f"# From {path}\n{source}"))
            else:
                self.pending.append(block)
                if block.kind == "fence" and (task := TASK.fullmatch(block.text)):
                    self._flush()
                    self.cells.append(nbformat.v4.new_code_cell(self._check(task["tests"])))
        self._flush()
        return self.cells

    def _check(self, tests: str) -> str:
        address = self.plain.address
        return CHECK.format(name=address.name, repository=address.repository, tests=tests)

    def _kept(self) -> list[Block]:
        """The blocks of the page, without solutions."""
        kept, inside = [], False
        for block in self.page.blocks:
            inside = inside or block.name == "solution-start"
            if not inside:
                kept.append(block)
            inside = inside and block.name != "solution-end"
        if inside:
            raise PageError(f"{self.page.path.name}: a solution-start without its solution-end")
        return kept

    def _flush(self) -> None:
        if text := self.plain.render(self.pending):
            self.cells.append(nbformat.v4.new_markdown_cell(text))
        self.pending = []

    def _code(self, block: Block) -> None:
        tags = block.options.get("tags") or []
        if BOOK_ONLY not in tags:
            metadata = {"tags": tags} if tags else {}
            source = with_records(self.plain.fitting(block).strip("\n"), self.plain.root)
            self.cells.append(nbformat.v4.new_code_cell(source, metadata=metadata))


def _opening(page: Page, plain: Plain, address: Address, has_code: bool) -> list[NotebookNode]:
    """The cells before the chapter: where it comes from, and the installation if there is anything to run."""
    link = f"[{plain.inline(page.title, 1)}]({address.site}{page.name}.html)"
    origin = f"*Made from the chapter {link} of The Executable Transformer: propose changes there, not in this file.*"
    cells = [nbformat.v4.new_markdown_cell(origin)]
    if has_code:
        source = INSTALL.format(repository=address.repository, branch=address.branch)
        cells.append(nbformat.v4.new_code_cell(source))
    return cells


def notebook_text(page: Page, index: Index, address: Address, root: Path) -> str:
    """The notebook of a page as the text of its file."""
    plain = Plain(page, index, address, root)
    cells = Converter(page, plain).convert()
    cells = _opening(page, plain, address, any(cell.cell_type == "code" for cell in cells)) + cells
    for i, cell in enumerate(cells):
        cell["id"] = f"cell-{i:03d}-{hashlib.sha256(cell.source.encode()).hexdigest()[:8]}"
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=METADATA)
    nbformat.validate(notebook)
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def all_notebooks(root: Path = ROOT) -> dict[str, str]:
    """File name → text, for every page of the book."""
    return {
        f"{name}.ipynb": notebook_text(plain.page, plain.index, plain.address, root)
        for name, plain in whole_book(root).items()
    }


def out_of_step(wanted: dict[str, str], folder: Path) -> list[str]:
    """What differs between the notebooks of a folder and those that the chapters give."""
    existing = {path.name: path.read_text("utf-8") for path in folder.glob("*.ipynb")}
    changed = [f"{name} is out of step" for name in wanted if name in existing and existing[name] != wanted[name]]
    missing = [f"{name} is missing" for name in wanted if name not in existing]
    return sorted(changed + missing + [f"{name} belongs to no chapter" for name in existing if name not in wanted])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "notebooks", help="the folder to write (or to check)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a notebook is out of step")
    arguments = parser.parse_args()
    try:
        wanted = all_notebooks(ROOT)
    except PageError as error:
        raise SystemExit(f"book/{error}") from None
    if not arguments.check:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for name, text in wanted.items():
            (arguments.out / name).write_text(text, "utf-8")
    if differences := out_of_step(wanted, arguments.out):
        raise SystemExit(
            f"{arguments.out.name}: {'; '.join(differences)}. Run `make notebooks`; delete what is left over."
        )
    print(f"{len(wanted)} notebooks in {arguments.out.name}/, in step with the chapters")


if __name__ == "__main__":
    main()
