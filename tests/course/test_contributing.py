"""The form of an exercise that CONTRIBUTING names is itself a whole exercise."""

from pathlib import Path

import pytest

from workshop.course.exercises import Exercise, exercises_of
from workshop.course.try_exercises import mark, trials
from workshop.site.book_index import read_page

FORM = Path(__file__).resolve().parents[2] / "workshop" / "course" / "exercise_form.md"


@pytest.fixture
def exercise(tmp_path: Path) -> Exercise:
    """The form, as the exercise of a page."""
    (tmp_path / "name.md").write_text(f"# A chapter\n\n{FORM.read_text('utf-8')}", "utf-8")
    [found] = exercises_of(read_page(tmp_path / "name.md"))
    return found


def test_the_form_is_whole_and_its_answers_earn_what_it_says(exercise: Exercise) -> None:
    tried = trials(exercise)
    assert len(tried) >= 4
    for what, answer, points in tried:
        assert mark(exercise, answer, {"__name__": "__main__"}).points == points, what
