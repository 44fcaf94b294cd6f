"""The check of the notebooks for Colab: what it reports of a notebook that fails, and of versions that change."""

import json
import subprocess
from pathlib import Path

import nbformat
import pytest

from workshop.site import colab_check

ROOT = Path(__file__).resolve().parents[2]


class Pretended(colab_check.Environment):
    """An environment whose programs answer what the test wants."""

    def __init__(self, versions: list[str]):
        self.reports = iter(versions)
        super().__init__(Path("python"))

    def report(self) -> dict[str, str]:
        return {"numpy": next(self.reports)}

    @staticmethod
    def pip_of(*_arguments: object, **_options: object) -> None:
        """Install nothing."""


def run(monkeypatch: pytest.MonkeyPatch, after: str, code: int, install_seconds: float) -> bool:
    answer = json.dumps({"cells": 3, "install_seconds": install_seconds})

    def pretend(command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, code, answer if code == 0 else "", "Traceback: it broke")

    monkeypatch.setattr(colab_check.subprocess, "run", pretend)
    return colab_check.run(Path("chapter.ipynb"), Pretended(["2.1.3", after]))


@pytest.mark.parametrize(
    ("after", "code", "install_seconds", "words"),
    [
        ("2.1.3", 0, 12.0, "passed"),
        ("2.4.0", 0, 12.0, "FAILED numpy 2.1.3 became 2.4.0"),
        ("2.1.3", 1, 12.0, "FAILED it broke"),
        ("2.1.3", 0, 75.0, "FAILED 75 s; 60 s are the limit"),
    ],
)
def test_what_is_wrong_is_said(monkeypatch, capsys, after, code, install_seconds, words):
    verdict, _, reason = words.partition(" ")
    assert run(monkeypatch, after, code, install_seconds) == (verdict == "passed")
    out = capsys.readouterr().out
    assert verdict in out
    assert reason in out


@pytest.mark.deep
@pytest.mark.parametrize("source", ["x = 1", "1 / 0"])
def test_a_notebook_is_really_run(source, tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    path = tmp_path / "page.ipynb"
    nbformat.write(notebook, path)
    command = [colab_check.sys.executable, "-c", colab_check.EXECUTE, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    if source == "x = 1":
        told = json.loads(result.stdout.splitlines()[-1])
        assert told["cells"] == 1
        assert 0 < told["install_seconds"] < 30
    else:
        assert result.returncode == 1
        assert "ZeroDivisionError" in result.stderr


def test_the_environment_of_development_is_left_alone(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["colab_check", "--here"])
    monkeypatch.setattr(colab_check, "is_editable", lambda: True)
    with pytest.raises(SystemExit):
        colab_check.main()
    assert "would take the editable package out" in capsys.readouterr().err
