"""What several test files share."""

import os
from pathlib import Path

import jaxtyping
import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def seed():
    """Every test starts from the same random state."""
    torch.manual_seed(0)


@pytest.fixture
def unchecked():
    """Switch the test suite's shape checks off, so that a bad input meets the library's own message."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def multi30k():
    """Make sure that the real corpus is at hand without a download."""
    folder = os.environ.get("TRANSFORMER_LIB_DATA")
    if not folder or not (Path(folder) / "multi30k").is_dir():
        pytest.skip("needs Multi30k: set TRANSFORMER_LIB_DATA to a folder that holds it")
    return Path(folder) / "multi30k"
