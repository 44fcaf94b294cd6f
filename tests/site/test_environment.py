"""Making the environments."""

import re
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from workshop.environment import make_env

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.posix
@pytest.mark.parametrize(
    ("there", "stamp", "made"),
    [(False, "", [False]), (False, "of another lock", [False]), (True, "of another lock", [True]), (True, "", [])],
)
def test_an_environment_whose_python_has_gone_is_made_anew(tmp_path, monkeypatch, there, stamp, made):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    (tmp_path / "target").touch()
    python.symlink_to(tmp_path / ("target" if there else "nowhere"))
    for name, value in {"ENV": tmp_path, "PYTHON": python, "STAMP": tmp_path / "complete"}.items():
        monkeypatch.setattr(make_env, name, value)
    wanted = make_env.fingerprint()
    (tmp_path / "complete").write_text(f"{tmp_path}\n{stamp}" if stamp else wanted)
    installed = []

    def install(update):
        installed.append(update)

    monkeypatch.setattr(make_env, "install", install)
    make_env.main()
    assert installed == made
    assert (tmp_path / "complete").read_text() == wanted


@pytest.mark.parametrize("name", [".venv", ".venv-grading"])
def test_every_package_runs_on_the_oldest_python_that_the_readme_names(name):
    folders = [str(folder) for folder in (ROOT / name).glob("lib/python*/site-packages")]
    if not folders:
        pytest.skip(f"needs {name}: run `make grading-env`")
    needs = {
        f"{one.name}=={one.version}": one.metadata.get("Requires-Python") or "" for one in distributions(path=folders)
    }
    assert len(needs) > 50
    assert not {pin: python for pin, python in needs.items() if "3.11.0" not in SpecifierSet(python)}


@pytest.mark.parametrize("name", ["requirements-lock.txt", "requirements-grading-lock.txt"])
def test_a_lock_names_versions_and_no_host(name):
    pins = [line for line in (ROOT / name).read_text("utf-8").splitlines() if not line.startswith("#")]
    assert not [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)]
