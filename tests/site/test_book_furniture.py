"""The parts of the local extension that lighten the pages and describe them."""

import html
import io
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from doctrees import document
from docutils import nodes
from docutils.core import publish_from_doctree
from myst_nb.sphinx_ import HideCodeCellNode
from PIL import Image

from workshop.site import (
    book_breaks,
    book_folds,
    book_head,
    book_languages,
    book_layers,
    book_outputs,
    book_search,
    book_weight,
)
from workshop.site.filled import filled

ROOT = Path(__file__).resolve().parents[2]


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


# ── Folded code ───────────────────────────────────────────────────────────────────────────────────────────────


def cell(*kinds: str, tags: str = "") -> nodes.container:
    """A folded cell with an output of these kinds, as myst-nb leaves it in the tree."""
    whole = nodes.container(hide_mode="input", classes=["cell", *tags.split()], prompt_show="x", prompt_hide="x")
    if kinds:
        output = nodes.container(nb_element="cell_code_output")
        output += [nodes.container(mime_type=kind) for kind in kinds]
        whole += output
    return whole


def test_folded_code_says_what_it_makes() -> None:
    cells = cell("image/png", "text/plain"), cell("application/vnd.vegalite.v6+json"), cell("text/plain"), cell()
    other = nodes.container(hide_mode="output", prompt_show="as it was")
    altair = cell("text/html")
    altair[0][0] += nodes.raw("", 'x(function(){vegaEmbed(y)})({"mark": "bar"}, {});', format="html")  # type: ignore[index]
    check = cell("text/plain", tags="tag_check")
    del check["hide_mode"]  # each check is folded; its page does not say so
    tree = document(*cells, altair, check, other)
    book_folds.name_folds(None, tree)  # type: ignore[arg-type]
    assert check["hide_mode"] == "input"
    said = [part["prompt_show"] for part in tree.findall(nodes.container) if "prompt_show" in part]
    whats = ["figure", "figure", "output", "step", "figure", "check"]
    assert said == [*(f"Code of this {what}" for what in whats), "as it was"]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("total = 1\n\n\ndef train(model):\n    loss = 2\n\n\nclass Mask:\n    def one(self): ...", ": train, Mask"),
        ("x = f(a=1)\nx = x + 1\ny, _ = g(x)\nfor n in x:\n    z = n", ": x, y"),
        ("a = 1\nb = 2\nc = 3\nd = 4", ": a, b, c, …"),
        ("print(f(x=1) == 2)", ""),
    ],
)
def test_folded_code_names_what_it_makes_for_the_code_after_it(source: str, names: str) -> None:
    assert book_folds.names_in(source) == names
    folded = cell("text/plain")
    folded.insert(0, nodes.literal_block(source, source))
    book_folds.name_folds(None, document(folded))  # type: ignore[arg-type]
    assert (folded["prompt_show"], folded["prompt_hide"]) == (
        f"Code of this output{names}",
        f"Hide the code of this output{names}",
    )


def test_a_wrong_answer_folds_to_its_mistake() -> None:
    tree = document()
    sources = "w = 1  # (n, d)\nx = 3  # doubles the b\ny = 1  # not this", "x = '#AT#'"
    for source in sources:
        folded = nodes.container(classes=["cell", "tag_wrong-answer"])
        folded += nodes.literal_block(source, source)
        tree += folded
    book_folds.name_folds(None, tree)  # type: ignore[arg-type]
    assert [part["hide_mode"] for part in tree.findall(nodes.container)] == ["all", "all"]
    said = [part["prompt_show"] for part in tree.findall(nodes.container)]
    assert said == ["A wrong answer: doubles the b", "A wrong answer, and what the check says"]


def test_no_line_ends_within_a_short_number() -> None:
    text = "The key (0, 1) has 90 % of it, 3 · 4 = 12 in (1, 2, 3, 4, 5, 6, 7, 8)"
    tree = document(nodes.paragraph("", text), nodes.literal_block("", text))
    builder = SimpleNamespace(builder=SimpleNamespace(name="html"))
    book_breaks.keep_together(builder, tree, "page")  # type: ignore[arg-type]
    whole = "The key (0,~1) has 90~% of it, 3~·~4~=~12 in (1, 2, 3, 4, 5, 6, 7, 8)".replace("~", "\xa0")
    assert [block.astext() for block in tree] == [whole, text]


# ── Printed text ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a sentence, however long\n\nand another", "line line line"),
        ("name   0.5\nother  0.7", "line line"),  # a label and one value
        ("\n".join(["n =  16: it takes   3.4 times as long, and that is   0.2 MB"] * 3), "line line line"),
        (
            "        1    2\na     0.5  0.7\nother  0.2  0.1  <b>\nc     0  1\nat the end",
            "tabular tabular tabular tabular line",
        ),
        ("recorded 2026-11-21: python a.py\n[[0.5 0.7]\n [0.2 0.1]]", "line tabular tabular"),
    ],
)
def test_what_a_cell_prints_folds_line_by_line_but_rows_of_columns_code_and_coloured_errors_do_not(
    text: str, kinds: str
) -> None:
    others = nodes.literal_block("", "x = 1"), nodes.literal_block("", "\x1b[31mno", classes=["output", "stream"])
    tree = document(nodes.literal_block(text, text, classes=["output", "stream"]), *others)
    book_outputs.fold_outputs(None, tree, "page")  # type: ignore[arg-type]
    [made] = tree.findall(nodes.raw)
    lines = re.findall(r'<span class="(\w+)">(.*?)\n</span>', made.astext())
    assert " ".join(kind for kind, _ in lines) == kinds
    assert html.unescape("\n".join(line for _, line in lines)) == text
    assert "<b>" not in made.astext()


# ── Languages ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "german"),
    [
        ("then sieben und vierzig is written", ["sieben und vierzig"]),
        ("vierzig 0.5, sieben 0.4", ["vierzig", "sieben"]),
        ("siebenundvierzig", ["siebenundvierzig"]),
        ("Das Haus, in dem wir wohnen, ist sehr alt.", ["Das Haus, in dem wir wohnen, ist sehr alt"]),
        ("the elf and the kind one in the house die", []),
        ("an understanding of hundreds", []),
    ],
)
def test_german_words_say_that_they_are_german(text: str, german: list[str]) -> None:
    emphasis = nodes.emphasis("", text)
    code = nodes.literal("", text)
    tree = document(nodes.paragraph("", "", emphasis, code), nodes.literal_block(text, text), nodes.math("", text))
    book_languages.mark_german(None, tree, "page")  # type: ignore[arg-type]
    assert [part.astext() for part in tree.findall(nodes.inline)] == german
    assert emphasis.astext() == text
    assert code["classes"] == ["language-de"] * bool(german)
    page = publish_from_doctree(tree, writer_name="html5").decode()
    assert re.findall(r'<span lang="de">(.*?)</span>', page) == german


# ── Search ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_word_of_the_glossary_is_found_on_the_page_that_explains_it() -> None:
    places = book_search.places()
    assert ("beam search", "decode", "main") in places["decoding"]
    assert ("softmax", "", "main") in places["first_steps"]
    assert ("softmax", "", "") in places["twenty_minutes"]
    assert {("query", "", "main"), ("value", "", "main")} < set(places["attention_as_lookup"])
    terms = re.findall(r"^(.+)\n: ", (ROOT / "book" / "glossary.md").read_text("utf-8"), re.MULTILINE)
    main = [word for words in places.values() for word, _, weight in words if weight]
    assert sorted(main) == sorted(word for term in terms for word in term.split(", "))


def test_a_page_that_explains_a_word_and_does_not_write_it_is_shown_with_its_sentence() -> None:
    sentence = "softmax: turning scores into positive weights that add up to 1."
    assert ("", sentence) in book_search.unnamed("twenty_minutes", [("", "These are the weights.")])
    assert ("", sentence) not in book_search.unnamed("twenty_minutes", [("", "The softmax shares out one whole.")])


def test_the_passages_of_a_page_are_its_prose_then_html_then_code_each_with_its_place() -> None:
    term, said = nodes.term("", "nat, bit"), nodes.definition("", nodes.paragraph("", "a unit"))
    section = nodes.section("", nodes.title("", "Code"), nodes.literal_block("", "{\n\nprint(x)"), ids=["code"])
    section += nodes.paragraph("", "the root ", nodes.math("", r"\sqrt{d_k}"))
    tree = document(
        nodes.raw("", "<script>let never</script><p>asked <b>here</b></p>", format="html"),
        nodes.definition_list("", nodes.definition_list_item("", term, said)),
        section,
    )
    assert book_search.named_terms(tree) == [("nat", "word-nat-bit", "main"), ("bit", "word-nat-bit", "main")]
    assert book_search.passages(tree) == [
        ("word-nat-bit", "nat, bit: a unit"),
        ("code", "the root √d_k"),
        ("", "asked"),
        ("", "here"),
        ("code", "print(x)"),
    ]


def test_a_passage_in_a_fold_has_a_place_of_its_own() -> None:
    """In each kind of fold: a box, what book_layers folds, the code of a cell, a box in one of these."""
    box = nodes.admonition("", classes=["dropdown"])
    folds = [book_layers.fold(words="How we know"), HideCodeCellNode(), box]
    section = nodes.section("", nodes.paragraph("", "open"), *folds, ids=["loss"])
    folds[0] += nodes.hint("", nodes.paragraph("", "inner"), classes=["dropdown"])
    for kind, fold in zip(("fold", "code", "box"), folds, strict=True):
        fold.append(nodes.paragraph("", kind))
    folds[0] += nodes.raw("", "<b>a map</b>", format="html")
    box += nodes.paragraph("", "named", ids=["mine"])
    tree = document(section)
    book_search.name_folded(None, tree, "")  # type: ignore[arg-type]
    assert book_search.passages(tree) == [
        ("loss", "open"),
        ("folded-2", "inner"),
        ("folded-3", "fold"),
        ("folded-4", "code"),
        ("folded-6", "box"),
        ("mine", "named"),
        ("folded-0", "a map"),
    ]


# ── Weight ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_packed_picture_keeps_even_areas_to_the_eye_and_edges_nearly() -> None:
    generator = np.random.default_rng(0)
    pixels = np.full((400, 400, 3), (247, 251, 255))
    pixels[100:300, 100:300] = (8, 81, 156)
    pixels[:60, :, 0] = generator.integers(180, 256, (60, 400))  # thousands of rare colours, in small steps
    pixels[:60, :, 1] = generator.integers(225, 256, (60, 400))
    before = png(pixels)
    after = book_weight.packed(before)
    drawn = np.asarray(Image.open(io.BytesIO(after)).convert("RGB")).astype(int)
    assert len(after) < len(before) / 1.5
    assert np.abs(drawn[60:] - pixels[60:]).max() <= 1
    assert 0 < np.abs(drawn - pixels).max() <= book_weight.LARGEST_CHANGE


@pytest.mark.slow
def test_a_photograph_or_a_transparent_picture_is_left_as_it_is() -> None:
    noise = png(np.random.default_rng(0).integers(0, 256, (200, 200, 3)))
    clear = png(np.zeros((400, 400, 4)))  # large enough for a palette to save something
    assert book_weight.packed(noise) == noise
    assert book_weight.packed(clear) == clear


def test_pictures_get_their_size(tmp_path: Path) -> None:
    (tmp_path / "_images").mkdir()
    (tmp_path / "_images" / "a.png").write_bytes(png(np.zeros((30, 50, 3))))
    page = book_weight.with_sizes('<img alt="A" src="_images/a.png" />', tmp_path)
    assert page == '<img alt="A" src="_images/a.png" width="50" height="30" decoding="async" />'
    assert book_weight.with_sizes(page, tmp_path) == page


# ── Descriptions and files ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tex", "text"),
    [(r"\sqrt{d_k}", "√d_k"), (r"\sqrt{d_{model}}", "√d_model"), (r"-\infty", "−∞"), ("d_{ff}", "d_ff")],
)
def test_a_description_comes_from_the_question_box_with_formulas_as_text(tex: str, text: str) -> None:
    able = nodes.paragraph("", "", nodes.strong("", "You will be able to"), nodes.Text(" divide by "))
    able += nodes.math("", tex)
    box = nodes.admonition("", nodes.title("", "Why?"), able, classes=["question"])
    tree = document(nodes.paragraph("", "Something else."), box)
    assert book_head.description_of(tree) == f"Why? Divide by {text}"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("word " * 80, "word…"),
        (
            "One sentence that is long enough to stand alone, which has more than a hundred letters before " * 3,
            "alone.",
        ),
        (
            "Compute two heads by hand and prove that nothing changed by cutting one projection into several heads and "
            "say what 1, 8 or 32 heads cost on a machine of your own in one epoch of training",
            "a machine of your…",
        ),
    ],
)
def test_a_long_description_ends_with_a_whole_word_and_cuts_no_list_of_numbers(text: str, end: str) -> None:
    short = book_head.shorten(text)
    assert 100 <= len(short) <= book_head.LONGEST
    assert short.endswith(end)  # a whole word, and "1, 8" is not cut open


def test_the_page_for_lost_readers_escapes_titles() -> None:
    values = {"host": "/a/", "site_name": "B & C", "parts": [("P <1>", ["book/x"])], "titles": {"book/x": "X < Y"}}
    page = filled("not_found.html", **values)
    assert '<a href="/a/book/x.html">X &lt; Y</a>' in page
    assert "<h2>P &lt;1&gt;</h2>" in page
    assert "B &amp; C" in page
