"""Make the two projects for students: an empty Transformer to fill, and a copy of the library with five planted bugs.

    python -m workshop.course.make_projects --out assignments/projects --seed 1

The seed chooses the bugs, so that every class (or every student) can have other ones. The key to the bugs is written
beside the project, into find_the_bugs-key.json: keep it.
"""

import argparse
import json
import random
import shutil
from pathlib import Path

from workshop.lab.defects import DEFECTS, Defect
from workshop.lab.patches import PACKAGE, copied, plant

ROOT = Path(__file__).resolve().parents[2]

PROJECTS = ROOT / "projects"
BUILD, BUGS = "build_the_transformer", "find_the_bugs"
NUM_BUGS = 5
# The modules that the students get the tests of; a bug sits in one of these.
MODULES = (
    *("attention", "multi_head_attention", "masks", "positional_encoding", "embeddings", "layers", "transformer"),
    *("label_smoothing", "decoding"),
)
NOT_COPIED = shutil.ignore_patterns("__pycache__", "pretrained")


def plantable() -> list[Defect]:
    """The defects that show with the paper's own settings, in the modules of the project."""
    return [d for d in DEFECTS if Path(d.file).stem in MODULES and not d.model and d.runs]


def choose(seed: int) -> list[Defect]:
    """Five defects in five different files, so that each can be looked at by itself."""
    chance = random.Random(seed)
    files = chance.sample(sorted({defect.file for defect in plantable()}), NUM_BUGS)
    return [chance.choice([defect for defect in plantable() if defect.file == file]) for file in sorted(files)]


def write_bugs(folder: Path, bugs: list[Defect]) -> None:
    """The project with these bugs in its copy of the library, and the tests that show them."""
    shutil.copytree(PROJECTS / BUGS, folder, ignore=NOT_COPIED, dirs_exist_ok=True)
    copied(folder, [PACKAGE])
    for bug in bugs:
        plant(folder, bug.file, bug.right, bug.wrong)
    copy_tests(folder / "tests")


def copy_tests(folder: Path) -> None:
    """The tests of these modules, as they lie in the repository, and what they import."""
    (folder / "paper").mkdir(parents=True, exist_ok=True)
    for name in ("conftest.py", "paper/tiny_models.py", *(f"paper/test_{module}.py" for module in MODULES)):
        shutil.copy(ROOT / "tests" / name, folder / name)


def key(bugs: list[Defect]) -> list[dict[str, str]]:
    """What was planted, for the one who marks."""
    return [
        {"name": b.name, "file": b.file, "right": b.right, "wrong": b.wrong, "caught_by": b.caught_by} for b in bugs
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "assignments" / "projects", help="the folder to write into")
    parser.add_argument("--seed", type=int, default=0, help="chooses the five bugs")
    arguments = parser.parse_args()
    bugs = choose(arguments.seed)
    for name in (BUILD, BUGS):
        shutil.rmtree(arguments.out / name, ignore_errors=True)
    shutil.copytree(PROJECTS / BUILD, arguments.out / BUILD, ignore=NOT_COPIED)
    write_bugs(arguments.out / BUGS, bugs)
    (arguments.out / f"{BUGS}-key.json").write_text(json.dumps(key(bugs), indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{arguments.out}: {BUILD}, and {BUGS} with {NUM_BUGS} bugs of seed {arguments.seed}")


if __name__ == "__main__":
    main()
