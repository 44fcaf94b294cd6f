"""What the tests of grading share."""

import os

import pytest

from workshop.course import grading_zoo as zoo


@pytest.fixture(scope="session")
def needs_grading() -> None:
    """Skip without .venv-grading, or fail where TRANSFORMER_LIB_REQUIRE_GRADING=1."""
    if not zoo.PYTHON.exists():
        if os.environ.get("TRANSFORMER_LIB_REQUIRE_GRADING") == "1":
            pytest.fail("needs .venv-grading: run `make grading-env`")
        pytest.skip("needs .venv-grading: run `make grading-env`")
