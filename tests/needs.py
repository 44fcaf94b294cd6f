"""What some tests need beside Python."""

import os

import pytest


def unavailable(reason: str, what: str = "BROWSER") -> None:
    """Skip, or fail where TRANSFORMER_LIB_REQUIRE_`what` is 1."""
    (pytest.fail if os.environ.get(f"TRANSFORMER_LIB_REQUIRE_{what}") == "1" else pytest.skip)(reason)
