"""The tests bite: each seeded defect, applied to a copy of the package, makes them fail."""

import re
from pathlib import Path

import pytest

from experiments.open_choices import CHOICES
from workshop.lab.defects import DEFECTS
from workshop.lab.forked import run_pytest
from workshop.lab.patches import copied, plant

ROOT = Path(__file__).resolve().parents[2]


def run_tests(package_folder, *names):
    """Run these tests against the copy of the package that lies in this folder.

    Without the checks of shapes at every call (addopts): what a test notices, it notices by itself, in half the time.
    """
    arguments = "-q -x -o addopts= -p no:cacheprovider -p no:xdist --tb=no -m".split()
    where = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), *(str(ROOT / "tests" / n) for n in names)]
    return run_pytest(package_folder, [*arguments, "not deep", *where])


def test_there_are_enough_and_no_two_are_the_same():
    assert len(DEFECTS) >= 30
    assert len({(d.file, d.right, d.wrong) for d in DEFECTS}) == len({d.name for d in DEFECTS}) == len(DEFECTS)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: d.name)
def test_a_defect_is_one_place_of_the_package_and_names_a_test(defect):
    source = (ROOT / defect.file).read_text("utf-8")
    found = source.count(defect.right)
    cure = "lengthen both texts" if found else "adapt the defect"
    assert found == 1, f"{defect.file} holds {defect.right!r} {found} times: {cure} in workshop/lab/defects.toml"
    file, _, name = defect.caught_by.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8")


@pytest.mark.parametrize("choice", [choice for choice in CHOICES if choice.file], ids=lambda choice: choice.name)
def test_a_choice_turned_the_other_way_is_one_place_of_the_package(choice):
    assert (ROOT / choice.file).read_text("utf-8").count(choice.right) == 1


@pytest.mark.deep
def test_without_a_defect_the_copy_passes(tmp_path):
    copied(tmp_path)
    done = run_tests(tmp_path, *sorted({defect.caught_by for defect in DEFECTS}))
    assert done.returncode == 0, done.output[-1500:]


@pytest.mark.deep
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: d.name)
def test_a_seeded_defect_is_caught(defect, tmp_path):
    copied(tmp_path)
    plant(tmp_path, defect.file, defect.right, defect.wrong)
    done = run_tests(tmp_path, defect.caught_by)
    assert done.returncode == 1, done.output[-1500:]
    failed = rf"^FAILED .*tests/{re.escape(defect.caught_by)}"
    assert re.search(failed, done.output, re.MULTILINE)
