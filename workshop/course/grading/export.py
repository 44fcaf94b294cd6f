"""After grading: marks, report and feedback of a chapter."""

import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import nbformat

from workshop.course.grading import class_list, exercise_parts, marks, summary
from workshop.course.grading.course import Course, gradebook
from workshop.course.grading.feedback import page
from workshop.course.grading.one import Job, notebook
from workshop.course.grading.submissions import Submission


def write_tables(root: Path, chapter: str, table: list[marks.Marks]) -> list[str]:
    """Write the tables of a chapter, and a line on each that somebody had changed since the last run: it is kept."""
    lines, generic = [], marks.generic(table)
    for name, content in {
        f"{chapter}.csv": marks.as_csv(generic).encode(),
        f"{chapter}-excel.csv": marks.for_excel(generic),
        f"{chapter}-moodle.csv": marks.as_csv(marks.moodle(table)).encode(),
        f"{chapter}-canvas.csv": marks.as_csv(marks.canvas(table, chapter)).encode(),
    }.items():
        path, as_written = root / "marks" / name, root / "cache" / "marks" / name
        for folder in (path.parent, as_written.parent):
            folder.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else b""
        if before and before not in (content, as_written.read_bytes() if as_written.exists() else b""):
            kept = path.with_name(f"{path.stem}-edited-{time.strftime('%Y-%m-%d-%H%M%S')}.csv")
            path.replace(kept)
            lines.append(f"marks/{name} was changed by hand: kept as {kept.name}. Change marks in `make mark` alone")
            print(f"WARNING: {lines[-1]}")
        for one in (path, as_written):
            one.write_bytes(content)
    return lines


def export(
    course: Course,
    chapter: str,
    submissions: list[Submission],
    lines: Sequence[str],
    students: dict[str, str] | None,
) -> list[marks.Marks]:
    """Write the marks, the report and the feedback for one chapter; on the screen, what nobody should overlook.

    Args:
        lines: for the report.
        students: those of the class list → what it notes of them; None without one.
    """
    root, found = course.root, []
    absent = None if students is None else class_list.absent(students, submissions, chapter, lines)
    if absent:
        print(f"{chapter}: no notebook of some of the class ({len(absent)}). The report has the names.")
    before = {path.parent.name for path in root.glob(f"submitted/*/{chapter}")}
    if gone := ", ".join(sorted(before - {one.student for one in submissions})):  # as after a renaming
        still = "they are in no table now, but still in the form of `make mark`"
        lines = [*lines, f"{chapter}: graded before, but no longer in the folder: {gone}; {still}"]
        print(lines[-1])
    titles = exercise_parts.titles(nbformat.read(notebook(root / "release", chapter), 4))
    with gradebook(root) as book:
        for one in submissions:
            record = Job(root, one).recorded()
            try:
                found.append(marks.marks_of(book, one, record, titles))
            except Exception as error:  # nbgrader has no entry where it failed
                reason = (record["error"] or error) if record else "its record is damaged: grade again"
                lines = [*lines, f"{one.student}: NO MARK, {reason}"]
    write_feedback(root, chapter, found)
    if found:
        missing = [
            marks.of_absent(name, files, found[0], (students or {}).get(name, ""))
            for name, files in (absent or {}).items()
        ]
        lines = [*lines, *write_tables(root, chapter, [*found, *missing])]
        called = absent and {f"{one} {getattr(one, 'name', '')}".strip(): files for one, files in absent.items()}
        (root / f"report-{chapter}.md").write_text(summary.report(chapter, found, lines, called), "utf-8")
        for line in summary.changed_by_many(found)[0]:
            print(f"WARNING: {line}")
    return found


def write_feedback(root: Path, chapter: str, found: list[marks.Marks]) -> None:
    """Write the page of each student, also of one that was graded before and got marks by hand since, and the archive.

    The grader has failed on whom it cannot write a page for.
    """
    with zipfile.ZipFile(root / f"feedback-{chapter}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for one in (one for one in found if not one.error):
            job = Job(root, one.submission)
            file = job.of_student("feedback").with_suffix(".html")
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                file.write_text(page(nbformat.read(job.of_student("autograded"), 4), one), "utf-8")
            except Exception as error:  # a student's text may be anything
                one.error = f"no page of feedback: {type(error).__name__}: {error}"
                continue
            archive.write(file, f"{one.submission.page or one.submission.student}.html")
