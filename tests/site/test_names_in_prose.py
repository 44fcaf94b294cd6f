"""What prose names in code is there: tests and names of a package by their roles, all else by the words themselves."""

import ast
import builtins
import inspect
import keyword
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from workshop.course.exercise_context import plain_python
from workshop.site import book_names
from workshop.site.myst_blocks import walk
from workshop.site.plain_markdown import Plain, whole_book

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"(?<!`)(\{[\w:]+\})?(`+)(?!`)(.+?)(?<!`)\2(?!`)", re.DOTALL)
OPTION = re.compile(r"(?<!\S)--[a-z][\w-]*")
FILE = re.compile(r"\.(cff|csv|db|ipynb|json|md|pl|py|tsv|yml|zip)$")
# Page → names that are in none of the places where a name is looked for, and why they may be named.
ELSEWHERE = {
    "evaluation": {"collections", "lc"},  # a module of Python; part of sacreBLEU's signature
    "for_instructors": {"num_keys", "repository", "student"},  # of an exercise; of _config.yml; a placeholder
    "live": {"beard"},  # a word, in pieces
    "many_gpus": {
        "--max-restarts",
        "torchrun",
        "datasets",
        "transformer_base",
    },  # PyTorch's, a package, tensor2tensor's
    "published_models": {"AutoTokenizer"},  # of transformers
    "speed": {"MALLOC_MMAP_THRESHOLD_"},  # of the C library
    # torchtext's, and those of its tutorial, which the table translates
    "text_to_tensors": {
        *("BucketIterator", "Field", "get_tokenizer", "build_vocab", "build_vocab_from_iterator", "process"),
        *("token_transform", "vocab_transform", "collate_fn", "Seq2SeqTransformer", "create_mask"),
    },
    "your_own_corpus": {"ko"},  # part of a package's name for pip
}


def names_used(source: str) -> set[str]:
    """Every name of some code, those in its strings too: a page reads records by their keys."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        for part in (getattr(node, field, None) for field in ("id", "attr", "arg", "name")):
            names |= set(part.split(".")) if isinstance(part, str) else set()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= set(re.findall(r"\w+", node.value))
    return names


def names_defined(source: str) -> set[str]:
    """The functions, classes, parameters, attributes and constants that some code makes, and what a text names."""
    tree = [*ast.walk(ast.parse(source))]
    defined = {node.name for node in tree if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    defined |= {node.arg for node in tree if isinstance(node, ast.arg)}
    defined |= {node.attr for node in tree if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    homes = (node for node in tree if isinstance(node, ast.Module | ast.ClassDef))
    targets = [each for home in homes for each in home.body if isinstance(each, ast.Assign | ast.AnnAssign)]
    defined |= {node.id for each in targets for node in ast.walk(each) if isinstance(node, ast.Name)}
    texts = {node.value for node in tree if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return defined | {text for text in texts if text.isidentifier()}


@cache
def names_of_packages() -> set[str]:
    """What this library, the reader's project, PyTorch, NumPy and Python define."""
    files = [*ROOT.glob("transformer_*/**/*.py"), *ROOT.glob("projects/build_the_transformer/*.py")]
    ours = set().union(*(names_defined(file.read_text("utf-8")) | {file.stem, file.parent.name} for file in files))
    nn = torch.nn
    modules = (torch, nn, nn.functional, torch.Tensor, torch.cuda, torch.optim, torch.optim.lr_scheduler, nn.parallel)
    classes = (nn.Transformer, nn.MultiheadAttention, nn.GRU, nn.parallel.DistributedDataParallel)
    theirs = {name for home in (*modules, *classes, np, np.ndarray, builtins, str, list, Counter) for name in dir(home)}
    called = (nn.functional.cross_entropy, nn.MultiheadAttention.forward, nn.Transformer.__init__, torch.optim.Adam)
    parameters = {name for each in called for name in inspect.signature(each).parameters}
    ours |= {folder.name for folder in ROOT.glob("transformer_*/pretrained/*")}
    return ours | theirs | parameters | set(keyword.kwlist)


@cache
def options() -> set[str]:
    """Every option that a command of the repository takes."""
    folders = ("transformer_*", "workshop", "experiments", "benchmarks")
    text = "".join(file.read_text("utf-8") for folder in folders for file in ROOT.glob(f"{folder}/**/*.py"))
    named = set(re.findall(r'"(--[a-z][\w-]*)"', text))
    fields = re.findall(r"^    (\w+):", text, re.MULTILINE)  # of a configuration, which is an option of `train`
    keywords = re.findall(r"(\w+)=", text)  # of `record`, which makes an option of each
    return named | {f"--{name.replace('_', '-')}" for name in (*fields, *keywords)}


def names_on(plain: Plain) -> set[str]:
    """Every name in the cells, listings and fences of a page."""
    names: set[str] = set()
    for block in walk(plain.page.blocks):
        if block.name == "code-cell":
            names |= names_used(plain_python(block.text))
        elif block.name == "literalinclude" or block.kind == "fence":
            names |= set(re.findall(r"\w+", block.text if block.kind == "fence" else plain.source(block)[1]))
    return names


def code_in_prose(plain: Plain) -> Iterator[tuple[str, str]]:
    """Where a piece of code stands in the prose of a page, roles left out, and the code."""
    for block in (block for block in walk(plain.page.blocks) if block.kind == "text"):
        for match in CODE.finditer(block.text):
            if not match[1]:
                yield f"{plain.page.path.name}:{block.line + block.text.count(chr(10), 0, match.start())}", match[3]


def unknown(code: str, known: set[str], excused: set[str]) -> set[str]:
    """The names and options of a piece of code that are nowhere; none of what is neither."""
    missing = {option for option in OPTION.findall(code) if option not in options()}
    if not FILE.search(code) and (not re.search(r"/|-\w| ", code) or "(" in code):
        try:
            tree = [*ast.walk(ast.parse(code.replace("…", "...")))]
        except SyntaxError:
            tree = []
        found = {getattr(node, field, None) for node in tree for field in ("id", "attr", "arg")}
        missing |= {name for name in found if isinstance(name, str)} - known - names_of_packages()
    return missing - excused


def faults(plain: Plain) -> list[str]:
    excused, known = ELSEWHERE.get(plain.page.name, set()), names_on(plain)
    return [
        f"{where}: {', '.join(sorted(missing))} in `{code}`"
        for where, code in code_in_prose(plain)
        if (missing := unknown(code, known, excused))
    ]


def test_what_prose_names_in_code_is_there() -> None:
    assert [fault for plain in whole_book(ROOT).values() for fault in faults(plain)] == []


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("recorder", {"recorder"}),
        ("scaled_dot_product_attention(query, key)", set()),
        ("scaled_dot_product_attentoin(query, key)", {"scaled_dot_product_attentoin"}),
        ("torch.nn.Transfomer", {"Transfomer"}),
        ("train --beam-sise 4", {"--beam-sise"}),
        ("forty seven", set()),
    ],
)
def test_a_name_that_is_gone_is_noticed(code: str, missing: set[str]) -> None:
    assert unknown(code, set(), set()) == missing


def test_prose_names_tests_by_the_role() -> None:
    bare = r"(?<!main )\btests/\w+/\w+\.py|\btest_[a-z][a-z_]{10,}"
    pages = whole_book(ROOT).values()
    assert [(where, code) for plain in pages for where, code in code_in_prose(plain) if re.search(bare, code)] == []


def warnings_of(page: str, root: Path) -> str:
    """What the build of a page warns of, in which it fails."""
    (root / "_config.yml").write_text("repository:\n  url: https://github.com/some/body\n", "utf-8")
    (root / "index.md").write_text(f"# A page\n\n{page}\n", "utf-8")
    warned = StringIO()
    with docutils_namespace():
        overrides = {"extensions": ["myst_parser"], "keep_warnings": False}
        out = root / "_build"
        app = Sphinx(root, None, out, out, "html", confoverrides=overrides, status=None, warning=warned)
        for name in book_names.FILES:
            app.add_role(name, book_names.Named())
        app.build()
    page = (root / "_build/index.html").read_text("utf-8")
    return warned.getvalue() or page


GONE = {
    "{test}`tests/paper/test_gone.py`": "no file of tests",
    "{test}`tests/paper/test_there.py::test_gone`": "no test 'test_gone'",
    "{lib}`transformer_lib.gone.attention`": "no module 'transformer_lib.gone'",
    "{lib}`transformer_lib.attention.gone`": "no 'gone' in transformer_lib.attention",
}


def test_the_build_fails_without_what_a_role_names(tmp_path: Path) -> None:
    (tmp_path / "tests/paper").mkdir(parents=True)
    (tmp_path / "tests/paper/test_there.py").write_text("def test_there(): ...\n", "utf-8")
    warned = warnings_of("\n\n".join(GONE), tmp_path)
    assert [message for message in GONE.values() if message not in warned] == []
    page = warnings_of("{test}`tests/paper/test_there.py::test_there`", tmp_path)
    assert 'href="https://github.com/some/body/blob/main/tests/paper/test_there.py"' in page
    assert "WARNING" not in page
