"""Mark the two projects by machine: run the tests against what each student handed in.

    python -m workshop.course.grade_projects build_the_transformer SUBMISSIONS --marks marks.csv
    python -m workshop.course.grade_projects find_the_bugs SUBMISSIONS --key assignments/projects/find_the_bugs-key.json

SUBMISSIONS holds a folder for each student; of the first project also files, such as Canvas's download holds them:
lovelaceada_1234_56_my_transformer.py. The tests are the project's own, whatever the student did to his, and so are
their points. In the first project transformer_lib cannot be imported. A submission that cannot be marked, or whose
points are withheld, gets a remark that says why; the others are marked all the same, and the marks are written after
each, with a page of feedback for the student. A second run marks who is new or handed in something else, and keeps the
other rows, with what you wrote into them; --again marks anew. The total is the machine's, its maximum stands in the row
"of": the column found.md waits for the points that you give.

What students wrote runs on this machine with limited memory and file sizes. Where bubblewrap is installed, it runs in a
sandbox that sees the tests, Python and its own folder alone; where it is not, nothing runs without --without-sandbox.
Each test may take --seconds, each run of the tests ten times as long.
"""

import argparse
import contextlib
import csv
import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import normalize

from tqdm import tqdm

from workshop.course import project_tests
from workshop.course.grading import class_list, submissions
from workshop.course.grading.exercise_parts import exercise_of
from workshop.course.grading.marks import Marks, cell
from workshop.course.grading.sandbox import warned
from workshop.course.grading.submissions import MOODLE, Submission, safe
from workshop.course.make_projects import BUGS, BUILD, ROOT
from workshop.site.filled import filled

OF, VERSION = "of", "version"  # the row of what there is to earn, and the column of which files were marked
HAND_IN = re.compile(r".+_my_transformer(?:-\d+)?(?: \(\d+\))?\.py")  # -1: a second try
Grader = Callable[[Path, float], project_tests.Marked]


def marked(grade: Grader, one: Submission, seconds: float, most: dict[str, float]) -> Marks:
    """The marks of a submission. Whatever goes wrong with it is a remark, so that the others get theirs."""
    try:
        found = grade(one.file, seconds)
    except Exception as error:  # shutil's, of copying a folder: (from, to, why) of each file
        reason = error.args[0][0][2] if isinstance(error, shutil.Error) else f"{type(error).__name__}: {error}"
        found = project_tests.Marked({}, f"could not be marked: {' '.join(reason.split())[: project_tests.LETTERS]}")
    points = {part: float(found.points.get(part, 0)) for part in most}
    return Marks(one, points, most, outcomes=found.said, events=[found.remark] if found.remark else [])


def row(marks: Marks, version: str = "") -> dict[str, Any]:
    """The row of a student: total, remark, the sum of each task and every part; which version of the files it is of."""
    about = {"student": cell(marks.submission.student), "total": marks.total, "remark": cell("; ".join(marks.notes))}
    return about | marks.shown | {VERSION: version}


def version(submission: Path) -> str:
    """Another word whenever a file of a submission is another."""
    files = sorted(path for path in [submission, *submission.rglob("*")] if path.is_file() and not path.is_symlink())
    digest = hashlib.sha256()
    for file in files:
        digest.update(bytes(file.relative_to(submission)) + b"\0")
        with contextlib.suppress(OSError), file.open("rb") as opened:  # what cannot be read becomes a remark later
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return f"v{digest.hexdigest()[:12]}"  # digits alone would be a number to a spreadsheet


def write_feedback(folder: Path, marks: Marks) -> None:
    """The page for a student: points of each task, and what each failed test saw. A bug that is left is not named."""
    hidden = {name for name, points in marks.points.items() if exercise_of(name) == name and not points}
    shown = {name: "a bug that is left" if name in hidden - {project_tests.REST} else name for name in marks.maximum}
    page = filled("project_feedback.html.j2", marks=marks, shown=shown)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{safe(marks.submission.student)}.html").write_text(page, "utf-8")


def read_marks(path: Path, columns: list[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The columns of the table, the instructor's own among them, and student → row of an earlier run.

    Raises:
        SystemExit: the file is no table with these columns, or writing it anew would lose something of it.
    """
    if not path.exists():
        return columns, {}
    rows: dict[str, dict[str, Any]] = {}
    table = class_list.table(class_list.decoded(path.read_bytes()))
    found = [*(table.fieldnames or [])]
    new = [column for column in columns if column not in found]
    if lacking := [column for column in new if column != VERSION and not column.startswith("task ")]:
        raise SystemExit(
            f"{path} is no table of this project and its key: it lacks the column {lacking[0]}. "
            "Name another table (--marks), or move this one."
        )
    if twice := [column for column in found if found.count(column) > 1]:
        raise SystemExit(f"{path}, line 1: column {twice[0]!r} stands there twice: name each column once")
    for own in table:
        if None in own or None in own.values() or rows.setdefault(own["student"], own) is not own:
            remedy = "put a cell that holds a comma in quotes, and keep one row of each student"
            raise SystemExit(f"{path}, line {table.line_num}: not {len(found)} cells, or a second row: {remedy}")
    return [*found, *new], rows


def write_marks(rows: dict[str, dict[str, Any]], path: Path, columns: list[str]) -> None:
    """The table anew; an earlier one stays whole until then, for it may hold marks by hand."""
    new, sign = path.with_name(f"{path.name}.new"), ","
    if path.exists():  # Excel in some languages reads semicolons alone, and writes them
        sign = class_list.table(class_list.decoded(path.read_bytes())).reader.dialect.delimiter
    with new.open("w", newline="", encoding="utf-8-sig", errors="backslashreplace") as file:
        writer = csv.DictWriter(file, columns, delimiter=sign, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows.values())
    new.replace(path)


def _submission(path: Path, project: str) -> Submission | str:
    """What a folder or file is, or why it is left out."""
    is_module = project == BUILD and path.is_file() and not path.is_symlink() and HAND_IN.fullmatch(path.name)
    if not is_module and not path.is_dir():
        return "no folder of a student, left out: unpack archives"
    if is_module or MOODLE.match(path.name):
        return Submission(path, chapter=project, **submissions.whose(path.name.removesuffix(".py"), {"my_transformer"}))
    name = normalize("NFC", path.name).encode("utf-8", "backslashreplace").decode()  # it need not be UTF-8
    return Submission(path, name, project, name)


def find(folder: Path, project: str) -> tuple[list[Submission], list[submissions.Line]]:
    """The submissions of a project, and a line on each file that is none.

    Raises:
        SystemExit: if there is no folder, or nothing in it to mark.
    """
    needed = "Put each student's files into a folder of its own."
    return submissions.gathered(folder, submissions.inside, partial(_submission, project=project), needed)


def grader(project: str, key: Path) -> tuple[Grader, dict[str, float], list[str]]:
    """What marks a submission of a project, what each part is worth at most, and the columns for marks by hand."""
    if project == BUILD:
        return project_tests.grade_build, project_tests.worth(), []
    planted = json.loads(key.read_text("utf-8"))
    most = {bug["name"]: project_tests.POINTS_A_BUG for bug in planted}
    most |= {project_tests.REST: project_tests.POINTS_FOR_THE_REST}
    return partial(project_tests.grade_bugs, planted=planted), most, ["found.md"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", choices=[BUILD, BUGS])
    parser.add_argument("submissions", type=Path, help="a folder with a folder for each student")
    parser.add_argument(
        "--key",
        type=Path,
        default=ROOT / "assignments" / "projects" / f"{BUGS}-key.json",
        help="of the planted bugs, as make_projects wrote it (default: the last one)",
    )
    parser.add_argument("--marks", type=Path, default=Path("marks.csv"))
    parser.add_argument("--seconds", type=float, default=60, help="for each test, at most")
    parser.add_argument("--again", nargs="*", metavar="STUDENT", help="mark these anew, or without a name all")
    parser.add_argument("--without-sandbox", action="store_true", help="go on where there is none")
    given = parser.parse_args()
    found, lines = find(given.submissions, given.project)
    students = {cell(one.student): one for one in found}
    again = [*students] if given.again == [] else given.again or []
    if unknown := sorted({*again} - {*students}):
        parser.error(f"--again: {', '.join(unknown)} handed in nothing in {given.submissions}")
    print(warned(Path(sys.executable), given.without_sandbox), end="")
    grade, most, by_hand = grader(given.project, given.key)
    of = Marks(Submission(given.submissions, OF, given.project), most, most)
    columns, rows = read_marks(given.marks, ["student", "total", "remark", *by_hand, *of.columns, VERSION])
    rows = {OF: {**rows.get(OF, {}), **row(of)}, **rows}
    given.marks.parent.mkdir(parents=True, exist_ok=True)
    now = {name: version(one.file) for name, one in students.items()}
    known = {name: own.get(VERSION) or now.get(name) for name, own in rows.items()}  # a table of an older version
    todo = [name for name in students if name in again or known.get(name) != now[name]]
    pages = given.marks.with_name(f"{given.marks.stem}-feedback")
    try:
        for name in tqdm(todo, unit="submission"):
            marks = marked(grade, students[name], given.seconds, most)
            rows[name] = {**rows.get(name, {}), **row(marks, now[name])}
            write_marks(rows, given.marks, columns)
            write_feedback(pages, marks)
    except KeyboardInterrupt:
        sys.exit("\nStopped. What was marked is kept; without --again the same command goes on with the rest.")
    print(f"Marked: {len(todo)}, of {of.total:g} points: {given.marks}; pages: {pages}")
    if before := len(students) - len(todo):
        print(f"Marked before, and as they were: {before}; --again marks them anew.")
    if left := sorted(rows.keys() - students.keys() - {OF}):
        print(f"In the table, and without a submission: {', '.join(left)}")
    print("\n".join(lines), end="\n" * bool(lines))


if __name__ == "__main__":
    main()
