"""What only Python needs is told apart in an exercise that its page asks."""

import pytest
from docutils import nodes

from workshop.site.book_exercises import IN_PYTHON, fold_waiting, hide_ranges, mark_sentence
from workshop.site.book_layers import fold


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


def exercise_with(answer: str) -> nodes.container:
    """An exercise of a cell for the answer and its check."""
    block = nodes.literal_block(answer, answer)
    cell = nodes.container("", block, classes=["cell", "tag_answer"])
    check = nodes.container("", nodes.paragraph("", "Put it into x."), classes=["cell", "tag_check"])
    return nodes.container("", cell, check)


@pytest.mark.parametrize(
    ("answer", "open_", "closed"),
    [
        ("def f(x):\n    return 1\n\n\nx = None  # a number", "def f(x):\n    return 1", "x = None  # a number"),
        ("sizes = [2, 4]\n# size -> share\nx = {2: None}", "sizes = [2, 4]", "# size -> share\nx = {2: None}"),
        ("# size -> share\nx = {}", "", "# size -> share\nx = {}"),
        ('def f(x):\n    """(n,) -> (n,)"""\n    ...', 'def f(x):\n    """(n,) -> (n,)"""\n    ...', ""),
    ],
)
def test_what_only_waits_for_an_answer_is_closed_where_the_answer_is_code(answer: str, open_: str, closed: str) -> None:
    exercise = exercise_with(answer)
    fold_waiting(exercise)
    *shown, hidden = exercise
    assert isinstance(hidden, fold)
    assert "".join(one.astext() for one in shown) == open_
    assert [one.astext() for one in hidden] == [*[closed] * bool(closed), "Put it into x."]
    for block in exercise.findall(nodes.literal_block):
        assert block.rawsource == block.astext()  # else it would lose its colours


def test_the_check_of_code_that_runs_and_is_wrong_shows_its_symptom() -> None:
    exercise = exercise_with("def best(found):\n    return min(found)")
    fold_waiting(exercise)
    assert not list(exercise.findall(fold))


def test_no_page_shows_the_ranges_from_which_a_class_gets_its_numbers() -> None:
    numbers = nodes.literal_block("n = 5  # 3..9\nm = 2", "n = 5  # 3..9\nm = 2")
    hide_ranges(nodes.container("", nodes.container("", numbers, classes=["cell", "tag_numbers"])))
    assert numbers.astext() == numbers.rawsource == "n = 5\nm = 2"
