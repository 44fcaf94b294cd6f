"""What only Python needs is told apart in an exercise that its page asks."""

import re

import pytest
from browser import ROOT
from docutils import nodes

from workshop.course.exercises import exercises_of
from workshop.course.page_answers import is_asked
from workshop.site.book_exercises import fold_waiting, hide_ranges
from workshop.site.book_index import pages_in_order, read_page
from workshop.site.book_layers import fold


def test_the_sentence_that_names_the_variable_is_marked() -> None:
    marked = 0
    for page in map(read_page, pages_in_order(ROOT)):
        for exercise, (_, inside) in zip(exercises_of(page), page.inside("exercise"), strict=True):
            if is_asked(exercise):
                answer = "\n".join(block.text for block in inside if "answer" in block.options.get("tags", ()))
                text = "\n".join(block.text for block in inside if block.kind == "text")
                unmarked, found = re.subn(r"\[[^\[\]]*\]\{\.in-python\}", "", text)
                marked += found
                assert not [name for name in re.findall(r"^(\w+) = ", answer, re.MULTILINE) if f"`{name}`" in unmarked]
    assert marked > 20


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
