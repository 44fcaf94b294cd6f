"""The promises that every chapter keeps, read from the sources."""

import ast
import io
import itertools
import json
import re
import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml

import transformer_lib
from transformer_lib.data.number_words import number_pairs
from transformer_run import cli
from workshop.course.exercises import exercises_of
from workshop.lab.defects import DEFECTS
from workshop.site.book_index import read_page
from workshop.site.myst_blocks import blocks, walk
from workshop.site.plain_markdown import whole_book

ROOT = Path(__file__).resolve().parents[2]
FRONT = ("index", "twenty_minutes", "notation", "glossary")
OTHERS = ("first_steps", "common_mistakes", "differences", "speed", "for_instructors", "reproduce", "live")
OTHER_PAGES = [ROOT / "book" / f"{name}.md" for name in OTHERS]  # a question and an ending, no parts of a chapter
CHAPTERS = [p for p in sorted((ROOT / "book").glob("*.md")) if p.stem not in FRONT and p not in OTHER_PAGES]
ALL = CHAPTERS + OTHER_PAGES
WITH_EXERCISES = CHAPTERS + OTHER_PAGES[:2]
PUBLIC = {name for name in transformer_lib.__all__ if name.islower()}
OF_EXERCISES = {"check", "hidden-check", "solution", "wrong-answer"}
VERBATIM = {"code-cell", "code-block", "literalinclude", "math", "raw"}
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"} | OF_EXERCISES


@cache
def text(path):
    return path.read_text("utf-8")


@cache
def page(path):
    return read_page(path)


@cache
def code_cells(path):
    return [block for block in page(path).blocks if block.name == "code-cell"]


def tags(cell):
    return set(cell.options.get("tags") or [])


def shown(found):
    """The blocks that a reader sees without unfolding anything, those inside boxes too."""
    for block in found:
        if block.name != "dropdown" and not re.search(r"\b(dropdown|toggle)\b", str(block.options.get("class", ""))):
            yield block
            if block.kind == "directive" and block.name not in VERBATIM:
                yield from shown(blocks(block.body, block.body_line))


def shown_before_the_exercises(page):
    """What a reader sees before the exercises or, where a page has none, before the last box."""
    lines = text(page.path).splitlines()
    end = next((i for i, line in enumerate(lines, 1) if line in {"## Exercises", "## To take away"}), len(lines) + 1)
    for block in shown(page.blocks):
        if block.line < end:
            yield replace(block, body=block.body[: end - block.line])


def test_the_chapters_are_numbered_and_front_matter_and_appendices_are_not():
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))["parts"]
    assert [part["caption"] for part in parts if "numbered" not in part] == ["Front matter", "Appendices"]
    assert {part.get("numbered", 1) for part in parts} == {1}  # chapters alone, not their sections
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["sphinx"]["config"]
    assert config["numfig_secnum_depth"] == 0  # or figures would be numbered otherwise than in the notebooks


def test_each_chapter_ends_with_a_link_to_the_next():
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))["parts"]
    order = [ROOT / f"{chapter['file']}.md" for part in parts if "numbered" in part for chapter in part["chapters"]]
    for path, following in itertools.pairwise(order):
        assert f"]({following.name})" in text(path).split("## To take away", 1)[1], path.name
    # The last one looks back, by number.
    looking_back = text(order[-1]).split("## What you have built")[1]
    assert [f"[{number}]({path.name})" for number, path in enumerate(order[:-1], 1)] == re.findall(
        r"\[\d+\]\(\w+\.md\)", looking_back
    )


def test_a_page_has_its_parts():
    parts = ("## The test", "## Mistakes people make", "## Exercises")
    assert [(path.stem, part) for path in CHAPTERS for part in parts if part not in text(path)] == []
    for path in ALL:
        box = text(path).split(":::{admonition}")[1].split(":::")[0]
        assert ":class: question" in box, path.name
        assert "?" in box.splitlines()[0], path.name
        assert re.search(
            r"\*\*You will be able to\*\*.*\*\*Know first:\*\*.*\*\*Time:\*\*.*\d+ minutes", box, re.DOTALL
        ), path.name
        ending = text(path).split("## To take away", 1)[1]
        assert len(re.findall(r"^- ", ending.split("**Read on.**")[0], re.MULTILINE)) == 3, path.name
        assert "{cite:" in ending, path.name


def test_the_loops_come_before_the_librarys_version():
    for path in CHAPTERS:
        listed = re.findall(r"literalinclude\} \.\./((?:transformer_lib|transformer_run|experiments)/\S+)", text(path))
        of_the_library = [name for name in listed if name.startswith("transformer_lib/")]
        loops = {name for name in listed if name.startswith("transformer_lib/reference/")}
        assert of_the_library[0] in loops, f"{path.name}: show the loops first"
        # the layer of an experiment is fast, too
        assert set(listed) > loops, f"{path.name}: after the loops, list the fast version"


def test_exercises_are_whole_and_take_the_minutes_that_the_box_says():
    for path in WITH_EXERCISES:
        found = exercises_of(page(path))  # raises for whatever an exercise lacks
        assert 3 <= len(found) <= 7, f"{path.name} has {len(found)} exercises"
        assert sum(exercise.is_graded_by_machine for exercise in found) >= 3, f"{path.name}: three with checks"
        [minutes] = re.findall(r"(\d+) for the exercises", text(path))
        assert int(minutes) == sum(map(int, re.findall(r"^:minutes: (\d+)", text(path), re.MULTILINE))), path.name


def test_a_chapter_asserts_its_claims():
    asserts = {path.stem: sum(cell.text.count("assert ") for cell in code_cells(path)) for path in WITH_EXERCISES}
    assert {name: n for name, n in asserts.items() if n < 10} == {}, "ten, those of hidden checks among them"


def test_a_reader_meets_no_assert():
    unread = OF_EXERCISES | {"book-only"}  # a folded cell is unfolded, and a hidden one stands in the notebook
    cells = [(path.stem, cell) for path in ALL for cell in code_cells(path) if not unread & tags(cell)]
    found = [f"{name}, line {cell.line}" for name, cell in cells if re.search(r"^\s*assert\b", cell.text, re.MULTILINE)]
    assert not found, "move it into a cell with the tags remove-cell and book-only, or into a test"


def test_each_loop_of_the_reference_is_listed_once():
    everything = [block for plain in whole_book().values() for block in walk(plain.page.blocks)]
    listed = [str(block.options.get("pyobject")) for block in everything if "/reference/" in block.argument]
    assert listed
    assert len(listed) == len(set(listed)), "link to the chapter that lists the loop already"


def test_a_chapter_never_defines_what_the_library_defines():
    for path in ALL:
        sources = [re.sub(r"^\s*[%!].*$", "", cell.text, flags=re.MULTILINE) for cell in code_cells(path)]
        nodes = [node for source in sources if re.search("def |class ", source) for node in ast.walk(ast.parse(source))]
        defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert not defined & PUBLIC, path.name


def test_every_picture_has_words():
    for path in ALL:
        for cell in code_cells(path):
            if "plt.show()" in cell.text:
                assert len(cell.options.get("mystnb", {}).get("image", {}).get("alt", "")) > 60, cell.text[:80]
            draws = any(name in cell.text for name in ("heat_map(", "line_chart(", "alt.Chart("))
            if draws and "import" not in cell.text and "def " not in cell.text:
                assert "description=" in cell.text, cell.text[:80]


def test_each_drawing_stands_on_a_page():
    paths = [plain.page.path for plain in whole_book().values()]
    figure = re.compile(r"^`{3,}\{figure\} (\S+)$", re.MULTILINE)  # also those inside a box
    shown = {path.parent / place for path in paths for place in figure.findall(path.read_text("utf-8"))}
    drawings = set((ROOT / "book/_static/drawings").glob("*.svg"))
    assert drawings
    assert drawings <= shown, "a drawing that no page shows"


def places(glossary):
    """The words of the glossary, each with the page or label that explains it."""
    found = re.findall(r"^([^\n#:(]+?)(?: \(.*\))?\n: .*?\]\(([^)]+)\)", glossary, re.MULTILINE)
    return {word: place.removesuffix(".md").lower() for word, place in found}


def first_use(word, prose):
    """Where the first sentence ends that has a word of the glossary, other than in a link, a heading or the goal."""
    blank = r"\[[^\]]*\]\([^)]*\)|`[^`]*`|\$[^$]*\$|^#.*$|\*\*You will be able to\*\*(?s:.*?)(?=\n\n)"
    prose = re.sub(blank, lambda found: "\0" * len(found[0]), prose, flags=re.MULTILINE)
    case = 0 if word.isupper() else re.IGNORECASE
    found = re.search(rf"(?<![\w-]){re.escape(word)}(?:s|es)?(?![\w-])", prose, case)
    ends = re.compile(r"[.?!]\s|\n\n|\|\n|\Z").finditer(prose, found.end()) if found else iter(())
    return next((end.start() for end in ends), None)


def explanation(word, place, prose):
    """Where a word is marked as new, has a row of a table, or links to where it is explained."""
    marked = rf"\*\*[^*\n]*{re.escape(word)}[^*\n]*\*\*|^\| [^|]*\b{re.escape(word)}\b"
    found = [match.start() for match in re.finditer(marked, prose, re.IGNORECASE | re.MULTILINE)]
    links = re.finditer(r"\]\(([^)]+)\)", prose)
    found += [link.start() for link in links if link[1].removesuffix(".md").lower() == place]
    return min(found, default=None)


# Page and word: the equation has it, and the sentences after the equation explain it.
AFTER_ITS_EQUATION = {("layers", "dropout")}


@pytest.mark.slow
def test_no_word_of_the_glossary_is_used_before_it_is_explained():
    book = whole_book()
    words, labels = places(book["glossary"].page.path.read_text("utf-8")), book["glossary"].index.labels
    assert len(words) >= 75
    assert not [word for word, place in words.items() if place not in book and place not in labels]
    early, known = [], set()
    for name in [name for name in book if name not in FRONT]:
        before = shown_before_the_exercises(book[name].page)
        prose = "\n".join(block.text for block in before if block.kind == "text")
        known |= {word for word, place in words.items() if name in (place, place in labels and labels[place].page)}
        for word, place in words.items():
            used, explained = first_use(word, prose), explanation(word, place, prose)
            if word not in known and used is not None and (explained is None or explained > used):
                early.append((name, word))
            known |= {word} if explained is not None else set()
    assert set(early) <= AFTER_ITS_EQUATION, "mark the word (**word**) and explain it, or link to the page that does"


# No listing shows these of the library, or only one of their methods: the chapters that explain them.
EXPLAINED_IN = {"Transformer": "encoder_decoder", "greedy_decode": "decoding"}
# Page and name: why a visible cell may have it before the chapter that explains it.
BOXES = {
    ("multi_head_attention", "sinusoids"): "tells ten places apart; any ten vectors would",
    ("embeddings", "Transformer"): "the whole model as a box, to count and to look at its embedding",
    ("masks", "Transformer"): "the whole model as a box, to see on what its outputs depend",
    ("training", "perplexity"): "one number beside the loss that the page's own sentence explains",
}


def library_names(cells):
    """The names that code cells import from the library, the loops aside."""
    trees = [ast.parse(cell.text) for cell in cells if "import" in cell.text and "%pip" not in cell.text]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    library = re.compile(r"transformer_lib(?!\.reference)")
    return {one.asname or one.name for node in imports if library.match(node.module or "") for one in node.names}


def test_no_function_is_used_before_the_chapter_that_explains_it():
    book = whole_book()
    order = {name: number for number, name in enumerate(book)}
    explained = {name: order[chapter] for name, chapter in EXPLAINED_IN.items()}
    early = set()
    for name, plain in book.items():
        for block in walk(plain.page.blocks):
            if block.name == "literalinclude" and "/transformer_lib/" in block.argument:
                explained.setdefault(str(block.options.get("pyobject")).split(".")[0], order[name])
    for name, plain in book.items():
        imported = library_names(block for block in walk(plain.page.blocks) if block.name == "code-cell")
        before = shown_before_the_exercises(plain.page)
        visible = [block.text for block in before if block.name == "code-cell" and not FOLDED & tags(block)]
        used = {node.id for source in visible for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
        early |= {(name, one) for one in used & imported if explained.get(one, 0) > order[name]}
    assert early <= BOXES.keys(), "show it first, or name in BOXES why the reader can take it as it is"


def test_the_recorded_defects_are_those_of_the_list():
    recorded = json.loads((ROOT / "experiments/results/seeded_defects.json").read_text("utf-8"))
    assert set(recorded["defects"]) == {defect.name for defect in DEFECTS if defect.runs}, (
        "run experiments/seeded_defects.py again"
    )


def test_a_chapter_has_two_pictures():
    for path in CHAPTERS:
        pictures = sum("plt.show()" in cell.text or "description=" in cell.text for cell in code_cells(path))
        assert pictures >= 2, f"{path.name}: {pictures} cells draw a chart or a plot"


def test_no_filler_no_machine_paths_and_no_folder_left_behind():
    for path in (ROOT / "book").glob("*.md"):
        assert not re.search(r"\b(simply|obviously|trivially|of course)\b", text(path), re.IGNORECASE), path.name
        assert not re.search(r"(?<![\w.])/(home|root|tmp|work)/|mkdtemp", text(path)), path.name


PATHS = {"folder", "path", "where", "scratch", "project", "file"}


def cut_at_spaces(source):
    """The names of paths in texts that are cut at white space: a folder "My Drive" would fall into two arguments."""
    code = re.sub(r"^(\s*)[!%].*$", r"\1pass", source, flags=re.MULTILINE)
    calls = (call for call in ast.walk(ast.parse(code)) if isinstance(call, ast.Call) and not call.args)
    for cut in (call.func for call in calls):
        if isinstance(cut, ast.Attribute) and cut.attr == "split" and isinstance(cut.value, ast.JoinedStr):
            yield from {part.id for part in ast.walk(cut) if isinstance(part, ast.Name)} & PATHS
    for line in re.findall(r"^\s*[!%](?!%).*$", source, flags=re.MULTILINE):
        yield from re.findall(r"(?<!\")\{.*?\}", line)


def test_a_cell_works_in_a_folder_with_a_space_in_its_name():
    assert set(cut_at_spaces('f"train {folder} --device {device}".split()\n!pytest {project}\n')) == {
        "folder",
        "{project}",
    }
    assert not list(
        cut_at_spaces('["train", str(folder), *f"--device {device}".split()]\n!"{sys.executable}" -m pytest')
    )
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert len(notebooks) > 25
    for path in notebooks:
        for cell in json.loads(text(path))["cells"]:
            if cell["cell_type"] == "code":
                assert not list(cut_at_spaces("".join(cell["source"]))), path.name


def listed(values):
    """As a sentence lists them: "1, 2 and 3"."""
    return re.sub(r", (?=[^,]*$)", " and ", ", ".join(map(str, values)))


def test_the_readme_says_what_the_command_reached():
    readme = (ROOT / "README.md").read_text("utf-8")
    recorded = json.loads((ROOT / "experiments/results/multi30k_recipe.json").read_text("utf-8"))
    ways = {
        "de-en": ("German to English", "greedy, latest", "spacy_lower"),
        "en-de": ("English to German", None, "moses_lower"),
    }
    for direction, (name, published_with, way) in ways.items():
        runs = [run for run in recorded["runs"] if run["direction"] == direction]
        tests = [run["test"]["test_2016_flickr"] for run in runs]
        signed = [scores[run["chosen"]]["cased"] for run, scores in zip(runs, tests, strict=True)]
        counted = [
            scores[published_with or run["chosen"]][way]["bleu"] for run, scores in zip(runs, tests, strict=True)
        ]
        epochs = listed(f"{run['epochs']:.0f}" for run in runs)
        cased = listed(score["bleu"] for score in signed)
        assert f"| {name} | {epochs} | **{cased}** | {listed(counted)}, " in readme
        assert all(f"`{score['signature']}`" in readme for score in signed)
    hours = [round(run["seconds_in_steps"] / 3600, 1) for run in recorded["runs"]]
    assert f"{min(hours):g} to {max(hours):g} hours of training on one CPU core" in readme
    dates = sorted({run["trained"]["date"] for run in recorded["runs"]})
    when, size = " to ".join(dates[:: len(dates) - 1 or 1]), recorded["runs"][0]["parameters"] / 1e6
    assert f"({when}, {size:.1f} million parameters)" in readme
    curves = [run["validation"]["perplexity"] for run in recorded["runs"]]
    since = [len(curve) - 1 - curve.index(min(curve)) for curve in curves]
    by_clock = sum(count < recorded["config"]["patience"] for count in since)
    assert by_clock == ("the clock ended one of them" in readme)


def test_a_recorded_result_names_its_origin():
    wanted = {"command", "commit", "seed", "device", "versions", "date", "seconds"}
    for path in (ROOT / "experiments/results").rglob("*.json"):
        recorded = json.loads(path.read_text("utf-8"))
        assert wanted <= recorded.keys(), path.name
        assert "dirty" not in recorded["commit"], path.name


def test_the_readmes_examples_run(capsys):
    readme = (ROOT / "README.md").read_text("utf-8")
    for example in re.findall(r"```python\n(.*?)```", readme, re.DOTALL):
        exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "['I read the book yesterday.']"
    assert printed[1] == "63045632"  # the comment beside it says so
    assert printed[2] == "torch.Size([2, 8, 2, 4])"


@pytest.mark.slow
def test_the_readmes_commands_run(tmp_path, monkeypatch, capsys):
    readme = (ROOT / "README.md").read_text("utf-8").replace("\\\n", "")
    lines = re.findall(r'^(?:echo "(.*)" \| )?python -m transformer_run (.*?)(?: +#.*)?$', readme, re.MULTILINE)
    commands = ["translate", "train", "evaluate", "translate", "export", "translate"]
    assert [command.split()[0] for _, command in lines] == commands
    monkeypatch.setattr("transformer_run.export.page.page_graph", lambda *_: b"")  # test_export.py computes with it
    monkeypatch.chdir(tmp_path)
    pairs = [(german, english.upper()) for english, german in number_pairs("val")]
    for name, some in (("train", pairs[:200]), ("test", pairs[200:205]), ("new", pairs[205:207])):
        for language, side in zip(("fr", "cs"), zip(*some, strict=True), strict=True):
            Path(f"{name}.{language}").write_text("\n".join(side) + "\n", "utf-8")
    Path("new.cs").unlink()
    small = "--vocabulary-size 60 --model d_model=16 d_ff=16 num_layers=1 --training num_steps=2 batch_tokens=300"
    for given, whole_command in lines:
        command, read, files = whole_command.partition(" < ")
        typed = Path(files.split(" > ")[0]).read_bytes() if read else given.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(typed))))
        more = small if command.startswith("train ") else ""
        assert cli.main(shlex.split(f"{command} --device cpu {more}")) == 0
    printed = capsys.readouterr().out
    assert "book" in printed.splitlines()[0]
    assert f"{tmp_path / 'test.cs'}, fr to cs, beam 5, alpha 1.0" in printed
    assert Path("mine.page").exists()
