"""What several test files share."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch

_checked = jaxtyping.jaxtyped


def _checked_once(**options: Any) -> Callable[[Any], Any]:
    """The decorator of jaxtyping's import hook. A function inside another would be compiled anew at each call."""
    decorate = _checked(**options)
    return lambda made: made if "<locals>" in made.__qualname__ else decorate(made)


jaxtyping.jaxtyped = _checked_once  # before the package is imported


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Shapes are checked at every call in the quick tests of the package; in long ones that takes most of the time."""
    if os.name == "nt" and item.get_closest_marker("posix"):
        pytest.skip("needs what Windows lacks")
    quick = item.path.parent.name in ("paper", "run") and not any(map(item.get_closest_marker, ("slow", "deep")))
    jaxtyping.config.update("jaxtyping_disable", not quick)


@pytest.fixture(autouse=True)
def seed():
    """Every test starts from the same random state."""
    torch.manual_seed(0)


@pytest.fixture
def unchecked():
    """Switch the test suite's shape checks off, so that a bad input meets the library's own message."""
    jaxtyping.config.update("jaxtyping_disable", True)


def _corpus(name: str, what: str) -> Path:
    folder = os.environ.get("TRANSFORMER_LIB_DATA")
    if not folder or not (Path(folder) / name).is_dir():
        pytest.skip(f"needs {what}: set TRANSFORMER_LIB_DATA to a folder that holds it")
    return Path(folder) / name


@pytest.fixture(scope="session")
def multi30k():
    """Make sure that the real corpus is at hand without a download."""
    return _corpus("multi30k", "Multi30k")


@pytest.fixture(scope="session")
def tatoeba():
    """Make sure that the sentences of Tatoeba are at hand without a download."""
    return _corpus("tatoeba", "Tatoeba")
