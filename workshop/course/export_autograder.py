"""Pack the marking of a chapter for another grader.

    python -m workshop.course.export_autograder gradescope attention      a zip to upload
    python -m workshop.course.export_autograder classroom50 attention     a folder for its autograders/
    python -m workshop.course.export_autograder otter attention           a folder for `otter generate`

Needs `make assignments`. What is packed holds the solutions and the hidden checks: Gradescope keeps it to itself;
Classroom 50 brings it to the runner of a student's own repository, where a student who looks for it can read it. For
Otter it is the checks alone, and a notebook to hand out that says when each runs. Otter runs them in the student's own
process, where code that means to forge points can, puts nothing back that a student deleted, and lets an answer call
the library's function of the same purpose. No form packs the key of a class: all use the numbers of an exercise as
they are written.
"""

import argparse
import json
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from workshop.site.address import configured
from workshop.site.filled import filled
from workshop.site.versions import pack

ROOT = Path(__file__).resolve().parents[2]
FILES = ("pyproject.toml", "README.md", "LICENSE", "requirements-lock.txt", "requirements-grading-lock.txt")
PACKAGES = ("transformer_lib", "transformer_run", "workshop")
NEXT = Path(__file__).with_name("next_steps.toml")
KEEP = "\nThis holds the {held}: give it to no student. The instructor's page is {site}for_instructors.html.\n"
GUIDE = "NEXT_STEPS.md"  # a README of that name is the book's


def next_steps(form: str, chapter: str) -> str:
    """What an instructor does with what was packed."""
    held = "hidden checks" if form == "otter" else "solutions and the hidden checks"
    steps = tomllib.loads(NEXT.read_text("utf-8"))[form]
    return steps.format(chapter=chapter) + KEEP.format(held=held, site=configured().site)


def check_assignment(chapter: str, assignments: Path) -> None:
    """Stop, with the chapters that there are, for a chapter without an assignment."""
    if not (assignments / "release" / chapter / f"{chapter}.ipynb").exists():
        known = ", ".join(sorted(path.name for path in assignments.glob("release/*/"))) or "none yet"
        raise SystemExit(
            f"error: no assignment {chapter!r} in {assignments}: run `make assignments`; there are: {known}"
        )


def write_script(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", newline="\n")
    path.chmod(0o755)


def pack_book(chapter: str, assignments: Path, archive: Path, scripts: dict[str, str]) -> None:
    """Everything that the marking of a chapter needs, as a zip, with these scripts beside it."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        to = Path(place)
        for name in FILES:
            shutil.copy(ROOT / name, to)
        for name in PACKAGES:
            shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        for kind in ("source", "release"):
            shutil.copytree(assignments / kind / chapter, to / "assignments" / kind / chapter)
        for name, text in scripts.items():
            write_script(to / name, text)
        pack(to, archive)


def for_gradescope(chapter: str, assignments: Path, out: Path) -> Path:
    """The zip to upload."""
    archive = out / f"{chapter}-gradescope.zip"
    scripts = {name: filled(f"autograder/{name}", chapter=chapter) for name in ("setup.sh", "run_autograder")}
    scripts[GUIDE] = next_steps("gradescope", chapter)
    pack_book(chapter, assignments, archive, scripts)
    return archive


def for_classroom50(chapter: str, assignments: Path, out: Path) -> Path:
    """The folder of the assignment's autograder."""
    folder = out / f"{chapter}-classroom50"
    shutil.rmtree(folder, ignore_errors=True)
    pack_book(chapter, assignments, folder / "book.zip", {})
    write_script(folder / "autograder.py", filled("autograder/classroom50.py.j2", chapter=chapter))
    (folder / GUIDE).write_text(next_steps("classroom50", chapter), "utf-8")
    return folder


def otter_test(label: str, checks: list[dict[str, Any]]) -> str:
    """A test file in Otter's exception-based form: each check runs in a copy of the student's names."""
    cases = []
    for cell in checks:
        role = cell["metadata"]["nbgrader"]
        part = {"part": role["grade_id"].removeprefix(f"{label}-"), "points": role["points"]}
        cases.append(part | {"names": repr(cell["metadata"]["book"]["names"]), "source": repr("".join(cell["source"]))})
    return filled("autograder/otter_test.py.j2", label=label, cases=cases)


def for_otter(chapter: str, assignments: Path, out: Path) -> Path:
    """A folder with tests/, requirements.txt and the notebook to hand out, which names each test before its check."""
    copies = {kind: assignments / kind / chapter / f"{chapter}.ipynb" for kind in ("source", "release")}
    checks: dict[str, list[dict[str, Any]]] = {}
    for cell in json.loads(copies["source"].read_text("utf-8"))["cells"]:
        if answer := cell["metadata"].get("book", {}).get("answer"):
            checks.setdefault(answer, []).append(cell)
    if not checks:
        raise SystemExit(f"error: Otter has nothing to run: {chapter} has no checks, only texts to mark by hand.")
    folder = out / f"{chapter}-otter"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tests").mkdir(parents=True)
    for label, cells in checks.items():
        (folder / "tests" / f"{label}.py").write_text(otter_test(label, cells), "utf-8")
    notebook = json.loads(copies["release"].read_text("utf-8"))
    placed: list[dict[str, Any]] = []
    for cell in notebook["cells"]:
        label = cell["metadata"].get("book", {}).get("answer")
        if label and cell["metadata"]["nbgrader"]["grade_id"] == f"{label}-check":
            # Before the check, which uses up what can be read once.
            metadata = {"deletable": False, "editable": False, "otter": {"tests": [label]}}
            place = {"cell_type": "markdown", "id": f"{label}-test", "metadata": metadata}
            placed.append(place | {"source": f"*Otter tests `{label}` here.*"})
        placed.append(cell)
    notebook["cells"] = placed
    (folder / f"{chapter}.ipynb").write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
    address = configured()
    requirement = f"executable-transformer[viz,text] @ git+{address.repository}@{address.branch}\n"
    (folder / "requirements.txt").write_text(requirement, "utf-8")
    (folder / GUIDE).write_text(next_steps("otter", chapter), "utf-8")
    return folder


FORMS = {"gradescope": for_gradescope, "classroom50": for_classroom50, "otter": for_otter}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or ""), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("form", choices=FORMS)
    parser.add_argument("chapters", nargs="+")
    parser.add_argument("--assignments", type=Path, default=ROOT / "assignments")
    parser.add_argument("--out", type=Path, default=Path(), help="default: here")
    given = parser.parse_args()
    for chapter in given.chapters:
        check_assignment(chapter, given.assignments)
        print(f"{FORMS[given.form](chapter, given.assignments, given.out)}\n{next_steps(given.form, chapter)}")


if __name__ == "__main__":
    main()
