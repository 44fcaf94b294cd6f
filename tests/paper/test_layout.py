"""Who may import whom, in the package and in the whole repository."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

import transformer_lib

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(transformer_lib.__file__).parent
# A file may import from those above it, never from those below.
ORDER = (
    "shapes config masks positional_encoding embeddings loss fast attention layers transformer cache "
    "run.seals run.checkpoints run.quantization precision data r_drop run.run_config distributed training "
    "decoding run.translation evaluation attention_maps plots run.alignment run.translator interop run.metrics "
    "run.preparation run.training_run run.export run.lines run.cli"
).split()
MATHEMATICS = ORDER[: ORDER.index("transformer") + 1]
NOT_IN_ORDER = {"reference"}  # imports nothing of the package; tests and chapters import it
MODULES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name not in ("__init__.py", "__main__.py") and path.stem not in NOT_IN_ORDER
]
# The buildings of the repository, and those that each may import.
BUILDINGS = {
    "transformer_lib": set(),
    "workshop": {"transformer_lib"},
    "benchmarks": {"transformer_lib", "workshop"},
    "experiments": {"transformer_lib", "workshop", "benchmarks"},
    "book": {"transformer_lib", "workshop", "experiments"},
    "tests": {"transformer_lib", "workshop", "experiments", "benchmarks", "conftest", "tests"},
}
PUBLIC_FACE = """
    TransformerConfig BASE BIG TABLE_3 Transformer count_parameters scaled_dot_product_attention MultiHeadAttention
    FeedForward causal_mask padding_mask sinusoids label_smoothing_loss learning_rate greedy_decode beam_search
    average_checkpoints record_attention
""".split()


def module_of(path):
    """The entry of the order that a file belongs to."""
    return in_order(".".join(path.relative_to(PACKAGE).with_suffix("").parts))


def in_order(name):
    """The entry of the order that a module belongs to: of most folders, the folder."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "run" else parts[0]


@cache
def imports_of(path):
    """The entries of the order that a file of the package imports."""
    here = ("transformer_lib", *path.relative_to(PACKAGE).parts[:-1])
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            found = [".".join([*base, *filter(None, [node.module])])]
            if found == ["transformer_lib"]:  # modules of the package, or names of its face
                found = [f"transformer_lib.{alias.name}" for alias in node.names]
        own = [name for name in found if name.startswith("transformer_lib.")]
        names |= {in_order(name.removeprefix("transformer_lib.")) for name in own}
    return names


def files_of(building):
    """The Python files of a building, and its chapters."""
    return [path for kind in ("*.py", "*.md") for path in sorted((ROOT / building).rglob(kind))]


def code_of(path):
    """The Python of a file, or of the cells of a chapter."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return text
    cell = r"^```\{code-cell\}[^\n]*\n(?:---\n.*?^---\n|(?::[^\n]*\n)*)(.*?)^```"
    cells = re.findall(cell, text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join(line for line in "\n".join(cells).split("\n") if not re.match(r"\s*[%!]", line))


def test_a_file_imports_only_files_above_it():
    wrong = [
        f"{path.name} imports {name}, which stands below it"
        for path in MODULES
        for name in imports_of(path)
        if ORDER.index(name) > ORDER.index(module_of(path))
    ]
    assert wrong == []


def test_mathematics_knows_nothing_of_data_training_or_decoding_and_data_never_sees_the_model():
    for path in MODULES:
        if path.stem in MATHEMATICS:
            assert imports_of(path) <= set(MATHEMATICS), path.name
        if path.parent.name == "data":
            assert imports_of(path) <= {"data", "shapes", "config"}, path.name


def test_nothing_of_the_package_imports_the_loops_that_judge_it():
    assert not [path for path in MODULES if "reference" in imports_of(path)]
    assert imports_of(PACKAGE / "reference.py") == set()


@pytest.mark.parametrize("building", BUILDINGS)
def test_the_arrows_between_the_buildings_run_one_way(building):
    wrong = []
    for path in files_of(building):
        for line in code_of(path).split("\n"):
            if found := re.match(r"\s*(?:from|import) (\w+)", line):
                name = found[1]
                if name in BUILDINGS and name not in BUILDINGS[building] | {building}:
                    wrong.append(f"{path.relative_to(ROOT)}: {line}")
    assert wrong == []


def test_nothing_edits_the_path():
    edit = re.compile(r"sys\.path(\.(insert|append|remove)|\[:0\]| *\+?=)")
    files = [path for building in (*BUILDINGS, "projects") for path in files_of(building)]
    assert [path for path in files if edit.search(path.read_text("utf-8"))] == []


def test_every_module_with_shapes_is_checked_while_the_tests_run():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    [option] = [one for one in settings["addopts"] if one.startswith("--jaxtyping-packages=")]
    *checked, _ = option.partition("=")[2].split(",")
    with_shapes = [
        path for path in MODULES if re.search(r"^from (jaxtyping|\.+shapes) ", path.read_text("utf-8"), re.M)
    ]
    names = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in with_shapes}
    assert names - {"transformer_lib.shapes"} == set(checked)


def test_the_public_face_is_complete():
    assert set(PUBLIC_FACE) <= set(transformer_lib.__all__)
    assert all(hasattr(transformer_lib, name) for name in PUBLIC_FACE)


def test_every_module_has_a_test_file_of_its_name():
    tests = {p.stem for p in (ROOT / "tests").rglob("test_*.py")}
    without_logic = {"shapes"}  # aliases alone; every test checks them
    together = {"interop"}  # folders whose files have one test file
    names = {p.parent.name if p.parent.name in together else p.stem for p in MODULES}
    assert {f"test_{name}" for name in names - without_logic} <= tests


def test_the_library_has_no_assert_no_dump_names_and_sources_of_a_fixed_form():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        assert not [node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assert)], path.name
        assert path.stem not in ("utils", "helpers", "common")
        assert "from __future__ import annotations" not in text, path.name
        for line in re.findall(r"Source: .*\]", text):
            assert re.search(r"(section|Table|table|figure) ?[\d.]*.* ?\[[a-z0-9-]+\]", line), line
