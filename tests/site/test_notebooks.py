"""Chapters → notebooks: every construct that the book uses, the errors, and the notebooks that are committed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from workshop.lab.correspondence import Row
from workshop.lab.defects import Defect
from workshop.site import make_notebooks, tables
from workshop.site.address import Address
from workshop.site.book_index import Index, pages_in_order, read_page
from workshop.site.myst_blocks import PageError
from workshop.site.plain_markdown import Plain

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = Address("owner", "name")
NOTEBOOKS = ROOT / "notebooks"
SITE = "https://owner.github.io/name/book/"
BLOB = "https://github.com/owner/name/blob/main/"
FRONT = "---\nkernelspec:\n  name: python3\n---\n"

BIBLIOGRAPHY = """\
@article{one2017, author = {Ada One}, title = {T}, year = {2017}, url = {https://paper.example/1}}
@article{two2018, author = {Ada One and Bo Two}, title = {T}, year = {2018}, doi = {10.1/2}}
"""
RECORDED = {"runs": [{"greedy": 0.5, "error": 'a "b"'}]}

Cells = list[tuple[str, str]]
Convert = Callable[..., Cells]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small repository around the page under test."""
    for name, text in {
        "book/other.md": "# The *other* page\n\n(there)=\n## A place there\n",
        "book/references.bib": BIBLIOGRAPHY,
        "book/_static/tree.svg": "<svg/>",
        "library/layers.py": "def double(x):\n    return 2 * x\n",
        "experiments/results/some.json": json.dumps(RECORDED),
        "LICENSE": "MIT",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


@pytest.fixture
def convert(root: Path) -> Convert:
    """A function that turns a page with this body into a notebook: its cells as (type, source), the opening ones and
    the page's title left out."""

    def build(body: str) -> Cells:
        page = root / "book" / "page.md"
        page.write_text(f"{FRONT}# Page\n{body}\n", "utf-8")
        pages = [read_page(page), read_page(root / "book" / "other.md")]
        index = Index(pages, root / "book" / "references.bib")
        notebook = json.loads(make_notebooks.notebook_text(Plain(pages[0], index, ADDRESS, root)))
        cells = [(cell["cell_type"], cell["source"]) for cell in notebook["cells"]]
        cells = [(kind, source.removeprefix("# Page").strip("\n")) for kind, source in cells[1:]]
        return [cell for cell in cells if cell[1] and "PackageNotFoundError" not in cell[1]]

    return build


def test_a_break_separates_markdown_cells(convert: Convert) -> None:
    assert convert("One.\n\n+++\n\nTwo.\n% a remark\n") == [("markdown", "One."), ("markdown", "Two.")]


FAILS = "def test_{0}_():\n    raise NotImplementedError('task {0}: scaled_dot_product_attention')\n"
TASK = "Run this:\n\n```\npython -m pytest -k test_4_\n```\n\nOn."


@pytest.mark.slow
@pytest.mark.posix
def test_the_check_of_a_task_runs_in_the_clone_or_makes_one(convert: Convert, root: Path) -> None:
    folders = [root / place for place in ("notebooks", "projects/build_the_transformer", "elsewhere/notebooks")]
    for folder in folders:
        folder.mkdir(parents=True)
    origin, small = root / "origin" / "name", folders[1]  # it imports no torch: here only its folder matters
    shutil.copytree(ROOT / "projects", origin / "projects", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    (small / "my_transformer.py").touch()
    (small / "test_my_transformer.py").write_text(FAILS.format(3) + FAILS.format(4), "utf-8")
    for command in ("init", "add .", "-c user.name=n -c user.email=e commit -m all"):
        subprocess.run(["git", *command.split()], cwd=origin, check=True, capture_output=True)
    settings = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{origin.parent}/.insteadOf"}
    settings |= {"GIT_CONFIG_VALUE_0": "https://github.com/owner/", "IPYTHONDIR": str(root / "ipython")}
    session = root / "session.ipy"  # one start of IPython for the three
    session.write_text("\n".join(f"%cd -q {folder}\n!echo next\n{convert(TASK)[1][1]}" for folder in folders), "utf-8")
    command = [sys.executable, "-m", "IPython", "--colors=NoColor", session]
    found = subprocess.run(command, cwd=root, env=os.environ | settings, capture_output=True, text=True, check=False)
    _, *parts = found.stdout.split("next\n")
    raised = ["NotImplementedError: task 4: scaled_dot_product_attention" in part for part in parts]
    assert raised == [True] * 3, found
    assert "task 3" not in found.stdout
    assert [(folder / "name").exists() for folder in folders] == [False, False, True]


def test_every_chapter_with_a_task_has_its_check() -> None:
    checks = {path.stem: path.read_text("utf-8").count("-m pytest -q -k test_") for path in NOTEBOOKS.glob("*.ipynb")}
    tasks = {path.stem for path in pages_in_order(ROOT) if "\n## Your Transformer\n" in path.read_text("utf-8")}
    assert {name for name, count in checks.items() if count == 1} == tasks
    assert len(tasks) == 16
    assert set(checks.values()) == {0, 1}


@pytest.mark.slow
def test_code_cells_are_those_that_the_book_executes() -> None:
    from myst_nb.core.config import NbParserConfig
    from myst_nb.core.read import read_myst_markdown_notebook
    from myst_parser.config.main import MdParserConfig

    extensions = {"colon_fence", "dollarmath", "amsmath", "deflist", "attrs_block", "attrs_inline"}
    for path in pages_in_order(ROOT):
        book = read_myst_markdown_notebook(
            path.read_text("utf-8"), config=MdParserConfig(enable_extensions=extensions), path=path
        )
        executed = [cell.source for cell in book.cells if cell.cell_type == "code"]
        ours = [block.text.strip("\n") for block in read_page(path).blocks if block.name == "code-cell"]
        assert ours == [source.strip("\n") for source in executed], path.name
    assert NbParserConfig().metadata_key == "mystnb"


# ── Text ──────────────────────────────────────────────────────────────────────────────────────────────────────


ONE, TWO = "[One, 2017](https://paper.example/1)", "[One and Two, 2018](https://doi.org/10.1/2)"
PYTHON = "```python\nx = '{ref}`there`'\n(eq-1)=\n```"
OTHER_COMMAND = "```\npython -m pytest -x\n```"  # no task's: no check behind it
EQUATION = "$$\ny = x \\tag{1}\n$$"
TREE = "![A tree](https://github.com/owner/name/raw/main/book/_static/tree.svg)"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("See {cite:p}`one2017,\ntwo2018`.", f"See ({ONE}; {TWO})."),  # a role goes on over the end of a line
        ("`{ref}` and `` `{cite}`x` `` stay", "`{ref}` and `` `{cite}`x` `` stay"),
        (r"$\{x\}`y`$ and $a^{{2}}$ stay", r"$\{x\}`y`$ and $a^{{2}}$ stay"),
        ("[words]{.wide} and `x`{.python}", "words and `x`"),
        ("[words](#there), [too](other.md#there)", f"[words]({SITE}other.html#there), [too]({SITE}other.html#there)"),
        ("[licence](../LICENSE)", f"[licence]({BLOB}LICENSE)"),
        (PYTHON, PYTHON),
        (OTHER_COMMAND, OTHER_COMMAND),
        (f"(eq-1)=\n{EQUATION}\n\n[Equation (1)](eq-1)", f"{EQUATION}\n\n[Equation (1)]({SITE}page.html#eq-1)"),
        (
            "::::{admonition} One\nA\n:::{admonition} Two?\nB\n:::\n::::",
            "> **One.**\n>\n> A\n>\n> > **Two?**\n> >\n> > B",
        ),
        (
            "```{figure} _static/tree.svg\n:alt: A tree\n:name: tree\nThe tree.\n```\n\n{numref}`tree`",
            f"{TREE}\n\n*Fig. 1.* The tree.\n\n[Fig. 1]({SITE}page.html#tree)",
        ),
    ],
)
def test_text_and_blocks(convert: Convert, body: str, expected: str) -> None:
    """The rest of what chapters use is held by the notebooks that are committed, below."""
    assert convert(body) == [("markdown", expected)]


def test_a_bar_ends_no_cell_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("eq-1", "§3.2.1", "lp(|Y|)", None, None, None, None)
    monkeypatch.setattr(tables.correspondence, "rows", lambda: [row])
    assert "| §3.2.1 | lp(\\|Y\\|) | – | – | – |" in tables.paper_table(ADDRESS)


def test_the_table_of_seeded_defects(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    changes = {"tripled": ("2 * x", "3 * x | 0"), "halved": ("2 *", "0.5 *"), "lost": ("return", "")}
    defects = [Defect(name, "a/b.py", *change, "test_b.py::test_it_doubles") for name, change in changes.items()]
    runs = [{"halfway": 0.5, "greedy": 1.0, "beam_4": 0.25}, {"halfway": 0, "greedy": 0, "beam_4": 0}]
    recorded = {"tripled": {"runs": runs}, "halved": {"runs": [{"error": "ValueError"}]}}
    (root / tables.RECORDED).write_text(json.dumps({"defects": recorded}), "utf-8")
    monkeypatch.setattr(tables, "DEFECTS", defects)
    text, code, test = (
        tables.defect_table(root, ADDRESS),
        f"([b.py]({BLOB}a/b.py))",
        f"[it doubles]({BLOB}tests/test_b.py)",
    )
    assert f"| tripled {code} | `2 * x` → `3 * x \\| 0` | 50, 0 | 100, 0 | 25, 0 | {test} |" in text
    assert f"| halved {code} | `2 *` → `0.5 *` | error | error | error | {test} |" in text
    assert f"| lost {code} | `return` → nothing | – | – | – | {test} |" in text


@pytest.mark.parametrize("text", ['.read_text("utf-8")', '.read_text(\n        "utf-8"\n    )'])
def test_a_recorded_result_is_written_into_the_notebook(convert: Convert, text: str) -> None:
    read = f'Path("../experiments/results/some.json"){text}'
    [(kind, source)] = convert(f"```{{code-cell}}\nimport json\nfound = json.loads(\n    {read}\n)\n```")
    assert kind == "code"
    assert "experiments" not in source
    names: dict[str, Any] = {}
    exec(source, names)
    assert names["found"] == RECORDED


@pytest.mark.parametrize("width", [80, 81])
def test_a_line_of_code_that_a_page_would_cut_is_an_error(convert: Convert, width: int) -> None:
    code = f"x = {'y + ' * 18}".ljust(width - 1, "z") + "z"
    with pytest.raises(PageError, match=r"81 columns.*80") if width > 80 else nullcontext():
        assert convert(f"```{{code-cell}}\n{code}\n```") == [("code", code)]


# ── Errors name file and line ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("\n```{mermaid}\nx\n```", r"page\.md:7: unknown directive \{mermaid\}"),
        ("\n:::{admonition} A\nWords.\n\n{wrong}`x`\n:::", r"page\.md:10: unknown role \{wrong\}"),
        ("\nOne.\nTwo {wrong}`x`.", r"page\.md:8: unknown role \{wrong\}"),
        ("{numref}`nowhere`", r"page\.md:6: unknown label 'nowhere'"),
        ("{numref}`there`", r"page\.md:6: 'there' has no number"),
        ("[x](nowhere.md)", r"page\.md:6: unknown target 'nowhere\.md'"),
        ("[x](../../outside)", r"page\.md:6: unknown target"),
        ("{cite:p}`nobody1999`", r"page\.md:6: no entry 'nobody1999'"),
        ("One\\\nTwo", r"page\.md:6: hardbreak"),
        ("{{ version }}", r"page\.md:6: .*'version' is not known"),
        ("![A tree](_static/tree.svg)", r"page\.md:6: image 'A tree' is not known"),
        ("[](there)", r"page\.md:6: link_close .*there' is not known"),
        ("$$a$$ and $$b$$ (pythagoras)", r"page\.md:6: .*' \(pythagoras\)' is not known"),
        ("```{code-cell} python\n---\nmystnb: {figure: {caption: A}}\n---\n1\n```", r"page\.md:6: a cell with a cap"),
        ("```{figure} _static/tree.svg\nThe tree.\n```", r"page\.md:6: picture _static/tree\.svg without alt text"),
        ("```{literalinclude} ../library/gone.py\n```", r"page\.md:6: unknown target '\.\./library/gone\.py'"),
        ("```{literalinclude} ../library/layers.py\n:pyobject: gone\n```", r"page\.md:6: .*gone"),
        ("```{solution-start} ex-none\n```", r"page\.md:6: no solution-end"),
        (":::{admonition} A\n```{code-cell} ipython3\n1\n```\n:::", r"page\.md:7: unknown directive \{code-cell\}"),
        (
            "::::{how-we-know}\n```{literalinclude} ../library/layers.py\n:pyobject: double\n:class: run\n```\n::::",
            r"page\.md:7: a listing to run inside \{how-we-know\}",
        ),
    ],
)
def test_what_cannot_be_converted_is_named_with_its_line(convert: Convert, body: str, message: str) -> None:
    with pytest.raises(PageError, match=message):
        convert(body)


# ── The committed notebooks ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def students() -> dict[str, str]:
    """The notebooks that students get, as the chapters give them now."""
    return make_notebooks.all_notebooks(ROOT)


@pytest.mark.slow
def test_the_committed_notebooks_are_in_step_with_the_chapters(students: dict[str, str]) -> None:
    assert make_notebooks.out_of_step(students, ROOT / "notebooks") == []


def test_changed_missing_and_left_over_notebooks_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text("old", "utf-8")
    (tmp_path / "c.ipynb").write_text("left", "utf-8")
    found = make_notebooks.out_of_step({"a.ipynb": "new", "b.ipynb": "new"}, tmp_path)
    assert found == ["a.ipynb is out of step", "b.ipynb is missing", "c.ipynb belongs to no chapter"]


def test_no_notebook_reads_a_file_that_colab_has_not():
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        for source in ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"):
            assert "../experiments" not in source, path.name
