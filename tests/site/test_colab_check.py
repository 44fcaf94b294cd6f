"""The check of the notebooks for Colab: what it reports of a notebook that fails, and of versions that change."""

from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import DeadKernelError

from workshop.site import colab_check


@pytest.mark.parametrize(
    ("after", "breaks", "words"),
    [
        ("2.1.3", False, "passed"),
        ("2.4.0", False, "FAILED numpy 2.1.3 became 2.4.0"),
        ("2.1.3", True, "FAILED it broke"),
    ],
)
def test_what_is_wrong_is_said(monkeypatch, capsys, after, breaks, words):
    def executed(_notebook: Path) -> None:
        if breaks:
            raise DeadKernelError("it broke")

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
