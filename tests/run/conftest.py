"""What several tests of the runs share."""

import io
from types import SimpleNamespace

import pytest


@pytest.fixture
def stdin(monkeypatch):
    """A function that makes these bytes the standard input, which is no terminal."""

    def given(content):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: False))

    return given
