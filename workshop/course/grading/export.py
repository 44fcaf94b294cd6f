"""After grading: marks, report and archive of a chapter."""

import time
import zipfile
from pathlib import Path

import nbformat

from workshop.course.grading import exercise_parts, marks, summary
from workshop.course.grading.course import gradebook
from workshop.course.grading.one import Job, write_feedback
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
    root: Path,
    chapter: str,
    submissions: list[Submission],
    lines: list[str],
    absent: dict[str, str] | None = None,
    students: dict[str, str] | None = None,
) -> list[marks.Marks]:
    """Write the marks, the report and the archive of feedback for one chapter.

    Args:
        absent: of whom of the class there is no notebook → files that may be theirs; None without a class list.
        students: those of the class list → what it notes of them.
    """
    found = []
    titles = exercise_parts.titles(nbformat.read(root / "release" / chapter / f"{chapter}.ipynb", 4))
    with gradebook(root) as book:
        for one in submissions:
            job = Job(root, chapter, one.student, one.file)
            record = job.recorded()
            try:
                found.append(marks.marks_of(book, one, record, titles))
            except Exception as error:  # nbgrader has no entry where it failed
                reason = (record["error"] or error) if record else "its record is damaged: grade again"
                lines = [*lines, f"{one.student}: NO MARK, {reason}"]
    if found:
        missing = [
            marks.of_absent(name, files, found[0], (students or {}).get(name, ""))
            for name, files in (absent or {}).items()
        ]
        lines = [*lines, *write_tables(root, chapter, [*found, *missing])]
        (root / f"report-{chapter}.md").write_text(summary.report(chapter, found, lines, absent), "utf-8")
    with zipfile.ZipFile(root / f"feedback-{chapter}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for one in found:
            page = Job(root, chapter, one.submission.student, one.submission.file).feedback
            if page.exists():
                archive.write(page, f"{one.submission.page or one.submission.student}.html")
    return found


def refresh_feedback(jobs: list[Job]) -> None:
    """Write the pages anew of those that were not graded again: they may have got marks or comments by hand."""
    for job in jobs:
        if record := job.recorded():
            write_feedback(job, record["events"])
