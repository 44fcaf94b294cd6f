"""The book under other seeds: what is moved, what is not, and that an assertion that hangs on a seed is listed."""

import ast
import subprocess
import sys

import pytest

from workshop.course.other_seeds import failures, moved
from workshop.site.address import ROOT

PAGE = """# A page

```{code-cell} ipython3
import random

first = random.Random(0).random()
recorded = {0: 1.0, 1: 2.0}
```

```{code-cell} ipython3
assert 0.8444218515250481 == first
assert 0 < first < 1
assert [recorded[seed] for seed in (0, 1)] == [1.0, 2.0]
```

```{code-cell} ipython3
assert len({random.Random(seed).random() for seed in range(3)}) == 3
```
"""


def moved_code(code: str) -> str:
    return ast.unparse(moved(code, 5))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("torch.manual_seed(0)", "torch.manual_seed(5)"),
        ("np.random.default_rng(2).normal(size=3)", "np.random.default_rng(7).normal(size=3)"),
        ("random.Random(1)", "random.Random(6)"),
        ("trained(2, seed=1)", "trained(2, seed=6)"),
        ("torch.manual_seed(seed)", "torch.manual_seed(seed)"),
        ("[run(seed) for seed in range(3)]", "[run(seed) for seed in [each + 5 for each in range(3)]]"),
        ("[record[seed] for seed in (0, 1)]", "[record[seed] for seed in (0, 1)]"),
        ("TrainingConfig(num_steps=9)", "TrainingConfig(num_steps=9, seed=5)"),
        ("TrainingConfig(num_steps=9, seed=2)", "TrainingConfig(num_steps=9, seed=7)"),
        ("random.sample(range(3), 2)", "random.sample(range(3), 2)"),
        ("seed == 3 or run(reseed=1)", "seed == 3 or run(reseed=1)"),
    ],
)
def test_the_seeds_that_a_reader_sees_are_moved(code, expected):
    assert moved_code(code) == expected


def test_a_default_and_a_loop_are_moved():
    assert "seed=5" in moved_code("def run(seed=0): pass")
    assert "each + 5" in moved_code("for seed in (3, 4):\n    draw = random.Random(seed)")


def test_an_assertion_that_hangs_on_a_seed_is_listed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE, "utf-8")
    assert failures(page, 0) == []
    assert failures(page, 1) == ["page.md:11: 0.8444218515250481 == first"]


def test_an_error_ends_its_cell_and_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("assert 0 < first < 1", "1 / 0"), "utf-8")
    [told] = failures(page, 0)
    assert "ZeroDivisionError" in told


@pytest.mark.deep
def test_the_command_runs_a_page_of_the_book():
    command = [sys.executable, "experiments/other_seeds.py", "--moved", "3", "--pages", "first_steps"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "moved by 3, first_steps: 0 fail" in done.stdout
