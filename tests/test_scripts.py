"""Each script that a command of the Makefile runs starts as a program, without the paths that pytest adds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(
    path
    for folder in ("scripts", "benchmarks", "experiments")
    for path in (ROOT / folder).glob("*.py")
    if "ArgumentParser(" in path.read_text("utf-8")
)
IN_AN_ENVIRONMENT_OF_ITS_OWN = {"grade.py": ROOT / ".venv-grading" / "bin" / "python"}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_starts(script: Path, tmp_path: Path) -> None:
    python = IN_AN_ENVIRONMENT_OF_ITS_OWN.get(script.name, Path(sys.executable))
    if not python.exists():
        pytest.skip("needs .venv-grading: run `make grading-env`")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, script, "--help"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "usage:" in done.stdout
