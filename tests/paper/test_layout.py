"""Who may import whom, in the package and in the whole repository."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

import transformer_lib

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, RUN = ROOT / "transformer_lib", ROOT / "transformer_run"
# A file may import from those above it, never from those below. Of a folder, its name.
ORDER = (
    "shapes config masks positional_encoding embeddings label_smoothing attention fast multi_head_attention layers "
    "transformer own_parts cache data learning_rate training decoding weight_files evaluation attention_maps plots "
    "interop"
).split()
RUN_ORDER = (
    "own_corpus checkpoints quantization r_drop update settings translation alignment translator export preparation "
    "training_run commands cli"
).split()
MATHEMATICS = ORDER[: ORDER.index("transformer") + 1]
MOST_LINES = {PACKAGE: 5358, RUN: 3685}  # docstrings and comments too; on the way to 4,600 and 3,500
NOT_IN_ORDER = {"reference"}  # imports nothing else of the package; tests and chapters import it


def files_in_order(package):
    """The files of a package that the order names, or whose folder it names."""
    paths = (path for path in sorted(package.rglob("*.py")) if path.name not in ("__init__.py", "__main__.py"))
    return [path for path in paths if path.relative_to(package).parts[0] not in NOT_IN_ORDER]


MODULES = files_in_order(PACKAGE)
ALL_MODULES = [*MODULES, *files_in_order(RUN)]
# The buildings of the repository, and those that each may import.
BUILDINGS = {
    "transformer_lib": set(),
    "transformer_run": {"transformer_lib"},
    "workshop": {"transformer_lib", "transformer_run"},
    "benchmarks": {"transformer_lib", "transformer_run", "workshop"},
    "experiments": {"transformer_lib", "transformer_run", "workshop", "benchmarks"},
    "book": {"transformer_lib", "transformer_run", "workshop", "experiments"},
    "tests": {"transformer_lib", "transformer_run", "workshop", "experiments", "benchmarks", "conftest", "tests"},
}
PUBLIC_FACE = """
    TransformerConfig BASE BIG TABLE_3 Transformer count_parameters scaled_dot_product_attention MultiHeadAttention
    FeedForward causal_mask padding_mask sinusoids label_smoothing_loss learning_rate greedy_decode beam_search
    average_checkpoints record_attention
""".split()


def place_of(path):
    """The package of a file, and the entry of the order that it belongs to."""
    package, entry = path.relative_to(ROOT).with_suffix("").parts[:2]
    return package, entry


@cache
def imports_of(path):
    """The packages and entries of the orders that a file imports."""
    here = path.relative_to(ROOT).parts[:-1]
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            found = [".".join([*base, *filter(None, [node.module])])]
            if found[0] in (PACKAGE.name, RUN.name):  # modules of the package, or names of its face
                found = [f"{found[0]}.{alias.name}" for alias in node.names]
        names |= {tuple(name.split(".")[:2]) for name in found if name.split(".")[0] in (PACKAGE.name, RUN.name)}
    return names


def own_imports(path):
    """The entries of its own package's order that a file imports."""
    return {name for package, name in imports_of(path) if package == place_of(path)[0]}


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


@pytest.mark.parametrize(("package", "order"), [(PACKAGE, ORDER), (RUN, RUN_ORDER)], ids=["lib", "run"])
def test_a_file_imports_only_files_above_it(package, order):
    files = files_in_order(package)
    wrong = [
        f"{path.name} imports {name}, which stands below it"
        for path in files
        for name in own_imports(path)
        if order.index(name) > order.index(place_of(path)[1])
    ]
    assert wrong == []


def test_mathematics_knows_nothing_of_data_training_or_decoding_and_data_never_sees_the_model():
    for path in MODULES:
        if path.stem in MATHEMATICS:
            assert own_imports(path) <= set(MATHEMATICS), path.name
        if path.parent.name == "data":
            assert own_imports(path) <= {"data", "shapes", "config"}, path.name


def test_nothing_of_the_packages_imports_the_loops_that_judge_them():
    assert not [path for path in ALL_MODULES if (PACKAGE.name, "reference") in imports_of(path)]
    for path in (PACKAGE / "reference").glob("*.py"):
        assert own_imports(path) <= {"reference"}, path.name


@pytest.mark.parametrize("package", MOST_LINES, ids=lambda package: package.name)
def test_the_packages_stay_small(package):
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in package.rglob("*.py"))
    assert lines <= MOST_LINES[package]


def test_a_chapter_has_one_name_in_four_places():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    parts = [part for part in toc["parts"] if part["caption"] in ("The model", "Training")]
    chapters = [Path(chapter["file"]).name for part in parts for chapter in part["chapters"]]
    own_names = {"encoder_decoder": "transformer", "text_to_tensors": "data"}  # the paper's word; a folder
    assert len(chapters) == 13
    for chapter in chapters:
        name = own_names.get(chapter, chapter)
        assert (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file(), chapter
        assert (PACKAGE / "reference" / f"{chapter}.py").is_file(), chapter
        if name != "data":  # each of its files has tests
            assert (ROOT / "tests" / "paper" / f"test_{name}.py").is_file(), chapter
    titles = {path.stem for path in (ROOT / "book").glob("*.md")}
    loops = {path.stem for path in (PACKAGE / "reference").glob("*.py")} - {"__init__"}
    assert loops <= titles


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
        path
        for path in ALL_MODULES
        if re.search(r"^from (jaxtyping|\.+shapes|transformer_lib\.shapes) ", path.read_text("utf-8"), re.M)
    ]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in with_shapes}
    assert names - {"transformer_lib.shapes"} == set(checked)


def test_the_public_face_is_complete():
    assert set(PUBLIC_FACE) <= set(transformer_lib.__all__)
    assert all(hasattr(transformer_lib, name) for name in PUBLIC_FACE)


def test_every_module_has_a_test_file_of_its_name():
    tests = {p.stem for p in (ROOT / "tests").rglob("test_*.py")}
    without_logic = {"shapes"}  # aliases alone; every test checks them
    together = {"interop", "export"}  # folders whose files have one test file
    elsewhere = {"weight_files": "checkpoints", "evaluate": "translate"}
    names = {p.parent.name if p.parent.name in together else elsewhere.get(p.stem, p.stem) for p in ALL_MODULES}
    assert {f"test_{name}" for name in names - without_logic} <= tests


def test_the_library_has_no_assert_no_dump_names_and_sources_of_a_fixed_form():
    for path in [*PACKAGE.rglob("*.py"), *RUN.rglob("*.py")]:
        text = path.read_text("utf-8")
        assert not [node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assert)], path.name
        assert path.stem not in ("utils", "helpers", "common")
        assert "from __future__ import annotations" not in text, path.name
        for line in re.findall(r"Source: .*\]", text):
            assert re.search(r"(section|Table|table|figure) ?[\d.]*.* ?\[[a-z0-9-]+\]", line), line
