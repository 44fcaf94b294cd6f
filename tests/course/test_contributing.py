"""Who follows CONTRIBUTING word by word gets what it promises."""

import re
from pathlib import Path

import pytest

from workshop.course.exercises import Exercise, exercises_of
from workshop.course.try_exercises import mark, trials
from workshop.site.book_index import read_page

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.fixture
def exercise(tmp_path: Path) -> Exercise:
    """The exercise that CONTRIBUTING shows, as a page."""
    [shown] = re.findall(r"^````\n(.*?)^````$", section("Add an exercise"), re.MULTILINE | re.DOTALL)
    (tmp_path / "name.md").write_text(f"# A chapter\n\n{shown}", "utf-8")
    [found] = exercises_of(read_page(tmp_path / "name.md"))
    return found


def test_the_exercise_that_it_shows_is_whole_and_earns_what_it_says(exercise: Exercise) -> None:
    tried = trials(exercise)
    assert len(tried) >= 4
    for what, answer, points in tried:
        assert mark(exercise, answer, {"__name__": "__main__"}).points == points, what
