"""What only Python needs is told apart in an exercise that its page asks."""

import pytest
from docutils import nodes

from workshop.site.book_exercises import IN_PYTHON, hide_ranges, mark_sentence


def paragraph(text: str) -> nodes.paragraph:
    """A paragraph in which `…` is a literal."""
    parts = text.split("`")
    made = [nodes.literal("", part) if i % 2 else nodes.Text(part) for i, part in enumerate(parts)]
    return nodes.paragraph("", "", *made)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("What is it? Put the number into `x`, then run the check.", "Put the number into x, then run the check."),
        ("What is it? Put\nboth into `x`. You may use Python.", "Put\nboth into x."),
        ("With `n` keys? Then put it into\n`x` for `n` keys and run it.", "Then put it into\nx for n keys and run it."),
        ("Raise it to `n`. Set\n`x` to a number, 1.5 say, first. Then go on.", "Set\nx to a number, 1.5 say, first."),
        ("Two things stand there: Put them into `x`.", "Put them into x."),
        ("Put `n` first. How many are `n`?", ""),
        ("Think, set `x` to the name, then look.", ""),
    ],
)
def test_the_sentence_that_names_the_variable_is_marked(text: str, sentence: str) -> None:
    exercise = nodes.container("", paragraph(text))
    mark_sentence(exercise, {"x"})
    assert exercise.astext() == text.replace("`", "")
    marked = [node.astext() for node in exercise.findall(nodes.inline) if IN_PYTHON in node["classes"]]
    assert marked == [sentence] * bool(sentence)


def test_no_page_shows_the_ranges_from_which_a_class_gets_its_numbers() -> None:
    numbers = nodes.literal_block("n = 5  # 3..9\nm = 2", "n = 5  # 3..9\nm = 2")
    hide_ranges(nodes.container("", nodes.container("", numbers, classes=["cell", "tag_numbers"])))
    assert numbers.astext() == numbers.rawsource == "n = 5\nm = 2"
