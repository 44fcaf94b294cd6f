"""After grading: marks, report and archive of a chapter."""

import zipfile
from pathlib import Path

import nbformat

from workshop.course.grading import exercise_parts, marks, summary
from workshop.course.grading.course import gradebook
from workshop.course.grading.one import Job, write_feedback
from workshop.course.grading.submissions import Submission


def export(
    root: Path, chapter: str, submissions: list[Submission], lines: list[str], absent: dict[str, str] | None = None
) -> list[marks.Marks]:
    """Write the marks, the report and the archive of feedback for one chapter.

    Args:
        absent: of whom of the class there is no notebook → files that may be theirs; None without a class list.
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
    folder = root / "marks"
    folder.mkdir(exist_ok=True)
    if found:
        table = [*found, *(marks.of_absent(name, files, found[0]) for name, files in (absent or {}).items())]
        marks.write_generic(folder / f"{chapter}.csv", table)
        marks.write_moodle(folder / f"{chapter}-moodle.csv", table)
        marks.write_canvas(folder / f"{chapter}-canvas.csv", table, chapter)
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
