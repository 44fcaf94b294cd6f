"""What several tests of the runs share."""

import io

import pytest
from command_line import run, two_files

from transformer_run import Translator


@pytest.fixture
def stdin(monkeypatch):
    """A function that makes these bytes the standard input, which is no terminal."""

    def given(content):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))  # as a pipe has it

    return given


@pytest.fixture
def refused(capsys):
    """A function that runs a command that must end with an error, and gives what the command says of it."""

    def said(*arguments):
        assert run(*arguments) == 2
        return capsys.readouterr().err

    return said


@pytest.fixture
def printed(capsys):
    """A function that runs a command that must succeed, and gives what the command prints."""

    def said(*arguments):
        assert run(*arguments) == 0
        return capsys.readouterr().out

    return said


@pytest.fixture(scope="session")
def numbers():
    """The translator of number words that comes with the package."""
    return Translator.load("number_words_en_de")


@pytest.fixture
def files(request, tmp_path):
    """The pairs of the test's module as two files, train.en and train.de."""
    return two_files(tmp_path, request.module.PAIRS, ("train.en", "train.de"))
