"""The check of the notebooks for Colab: what it reports of a notebook that fails, and of versions that change."""

from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import DeadKernelError

from workshop.site import colab_check


def ran(seconds: int) -> nbformat.NotebookNode:
    """A notebook whose first code cell took so long."""
    cell = nbformat.v4.new_code_cell("import transformer_lib")
    times = {
        "iopub.status.busy": "2026-08-01T10:00:00.5Z",
        "iopub.status.idle": f"2026-08-01T10:01:{seconds - 60:02}.5Z",
    }
    cell.metadata["execution"] = times
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Masks"), cell])


@pytest.mark.parametrize(
    ("after", "seconds", "words"),
    [
        ("2.1.3", 60, "passed"),
        ("2.4.0", 60, "FAILED numpy 2.1.3 became 2.4.0"),
        ("2.1.3", None, "FAILED it broke"),
        ("2.1.3", 75, "FAILED 75 s; 60 s are the limit"),
    ],
)
def test_what_is_wrong_is_said(monkeypatch, capsys, after, seconds, words):
    def executed(_notebook: Path) -> nbformat.NotebookNode:
        if seconds is None:
            raise DeadKernelError("it broke")
        return ran(seconds)

    reports = iter([{"numpy": "2.1.3"}, {"numpy": after}])
    monkeypatch.setattr(colab_check, "executed", executed)
    monkeypatch.setattr(colab_check, "versions", lambda: next(reports))
    verdict, _, reason = words.partition(" ")
    assert colab_check.run(Path("chapter.ipynb")) == (verdict == "passed")
    out = capsys.readouterr().out
    assert verdict in out
    assert reason in out


def test_the_versions_are_those_of_the_packages_that_colab_brings():
    assert {"torch", "numpy", "nbclient"} <= colab_check.versions().keys() <= colab_check.COLAB | {"PyYAML"}


@pytest.mark.deep
@pytest.mark.parametrize("source", ["import os; assert os.listdir() == []", "1 / 0"])
def test_a_notebook_is_really_run_in_an_empty_folder(source, tmp_path, capsys):
    path = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), path)
    assert colab_check.run(path) == ("import" in source)
    assert ("ZeroDivisionError" in capsys.readouterr().out) == ("import" not in source)
    if "import" in source:
        assert 0 < colab_check.seconds_of(colab_check.executed(path).cells[0]) < 30
