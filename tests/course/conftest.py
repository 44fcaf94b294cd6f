"""What the tests of grading share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import zoo
from filelock import FileLock
from needs import unavailable
from playwright.sync_api import Browser, sync_playwright

from workshop.course import make_assignments
from workshop.site.chromium import chromium


@pytest.fixture(scope="session")
def needs_grading() -> None:
    """Skip without .venv-grading, or fail where TRANSFORMER_LIB_REQUIRE_GRADING=1."""
    if not zoo.PYTHON.exists():
        unavailable("needs .venv-grading: run `make grading-env`", "GRADING")


@pytest.fixture(scope="session")
def of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def assignments(needs_grading: None, of_the_run: Path) -> Path:
    """All assignments, made once for all processes of the test run."""
    shared = of_the_run / "assignments"
    with FileLock(f"{shared}.lock"):
        if not (shared / "complete").exists():
            make_assignments.write_sources(shared)
            make_assignments.make_release(shared)
            (shared / "complete").touch()
    return shared


# Of a module, not of the session: Playwright's event loop would stand in the way of other tests that have their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        unavailable("Chromium is not installed: no page can be opened")
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=chromium()) as it:
        yield it
