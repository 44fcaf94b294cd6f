"""Making the environment."""

import pytest

from workshop.environment import make_env


@pytest.mark.posix
@pytest.mark.parametrize(("there", "made"), [(False, [False]), (True, [])])
def test_an_environment_whose_python_has_gone_is_made_anew(tmp_path, monkeypatch, there, made):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    (tmp_path / "target").touch()
    python.symlink_to(tmp_path / ("target" if there else "nowhere"))
    for name, value in {"ENV": tmp_path, "PYTHON": python, "STAMP": tmp_path / "complete"}.items():
        monkeypatch.setattr(make_env, name, value)
    (tmp_path / "complete").write_text(make_env.fingerprint())
    installed = []

    def install(update):
        installed.append(update)

    monkeypatch.setattr(make_env, "install", install)
    make_env.main()
    assert installed == made
