"""Who may import whom, and other promises about the package's shape."""

import ast
import re
from pathlib import Path

import pytest

import transformer_lib

PACKAGE = Path(transformer_lib.__file__).parent
# A file may import from those above it, never from those below.
ORDER = (
    "shapes config attention masks positional_encoding embeddings layers transformer loss checkpoints quantization "
    "data distributed training decoding evaluation translator attention_maps plots interop cli"
).split()
MATHEMATICS = ORDER[: ORDER.index("transformer") + 1]
MODULES = [p for p in sorted(PACKAGE.rglob("*.py")) if p.name not in ("__init__.py", "__main__.py")]

PUBLIC_FACE = """
    TransformerConfig BASE BIG TABLE_3 Transformer count_parameters scaled_dot_product_attention MultiHeadAttention
    FeedForward causal_mask padding_mask sinusoids label_smoothing_loss learning_rate greedy_decode
    average_checkpoints record_attention
""".split()


def place(path):
    return ORDER.index(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))


def imports_of(path):
    """Names of the package's own top-level modules that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            inside_data = path.parent.name == "data" and node.level == 1
            names.add("data" if inside_data else (node.module or "").split(".")[0])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("transformer_lib"):
            names.add(node.module.split(".")[1])
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_a_file_imports_only_files_above_it(path):
    for name in imports_of(path):
        assert ORDER.index(name) <= place(path), f"{path.name} imports {name}, which stands below it"


@pytest.mark.parametrize("path", [p for p in MODULES if p.stem in MATHEMATICS], ids=lambda p: p.stem)
def test_mathematics_knows_nothing_of_data_training_or_decoding(path):
    assert imports_of(path) <= set(MATHEMATICS)


@pytest.mark.parametrize("path", [p for p in MODULES if p.parent.name == "data"], ids=lambda p: p.stem)
def test_data_never_sees_the_model(path):
    assert imports_of(path) <= {"data", "shapes", "config"}


def test_data_and_decoding_meet_only_above():
    assert "cli" not in {name for path in MODULES if path.stem != "cli" for name in imports_of(path)}


def test_the_public_face_is_complete():
    assert set(PUBLIC_FACE) <= set(transformer_lib.__all__)
    assert all(hasattr(transformer_lib, name) for name in PUBLIC_FACE)


def test_every_module_has_a_test_file_of_its_name():
    tests = {p.stem for p in Path(__file__).parent.rglob("test_*.py")}
    without_logic = {"shapes"}  # aliases alone; every test checks them
    assert {f"test_{p.stem}" for p in MODULES if p.stem not in without_logic} <= tests


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_the_library_has_no_assert_and_no_dump_names(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert path.stem not in ("utils", "helpers", "common")
    assert "from __future__ import annotations" not in path.read_text("utf-8")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_source_lines_have_their_fixed_form(path):
    for line in re.findall(r"Source: .*\]", path.read_text("utf-8")):
        assert re.search(r"(section|Table|table|figure) ?[\d.]*.* ?\[[a-z0-9-]+\]", line), line
