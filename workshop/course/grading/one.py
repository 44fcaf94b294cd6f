"""Grading one submission: rebuild, let nbgrader grade, write the feedback, note what happened."""

import hashlib
import json
import shutil
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor  # pyright: ignore[reportMissingImports]
from nbgrader.apps import NbGraderAPI  # pyright: ignore[reportMissingImports]
from nbgrader.preprocessors import (  # pyright: ignore[reportMissingImports]
    CheckCellMetadata,
    GetGrades,
    SaveAutoGrades,
)

from workshop.course import variants
from workshop.course.grading.counted import counted
from workshop.course.grading.course import config, gradebook
from workshop.course.grading.execute import InSandbox
from workshop.course.grading.exercise_parts import is_unseen, is_written, rows, titles
from workshop.course.grading.feedback import Presentation, markdown
from workshop.course.grading.marks import changed_by_hand
from workshop.course.grading.rebuild import Unreadable, ids, mark_unanswered, read, rebuild
from workshop.course.grading.sandbox import Limits
from workshop.course.grading.submissions import readable

RECORDED = {"fingerprint", "events", "error", "outcomes"}
TEMPLATES = Path(__file__).resolve().parent / "templates"


@dataclass
class Job:
    """One submission to grade."""

    root: Path  # the course folder
    chapter: str
    student: str
    file: Path
    limits: Limits = field(default_factory=Limits)
    others: dict[str, list[str]] = field(default_factory=dict)  # chapter → ids of its answers, to name a mix-up
    drawn_for: tuple[bytes, str] | None = field(default=None, repr=False)  # the class key, the student on its list

    @property
    def record(self) -> Path:
        return self.root / "records" / self.chapter / f"{self.student}.json"

    @property
    def source(self) -> Path:
        return self.root / "source" / self.chapter / f"{self.chapter}.ipynb"

    @property
    def release(self) -> Path:
        return self.root / "release" / self.chapter / f"{self.chapter}.ipynb"

    @property
    def autograded(self) -> Path:
        return self.root / "autograded" / self.student / self.chapter / f"{self.chapter}.ipynb"

    @property
    def feedback(self) -> Path:
        return self.root / "feedback" / self.student / self.chapter / f"{self.chapter}.html"

    def recorded(self) -> dict[str, Any]:
        """The record of when it was graded; empty if it never was, or if the record is damaged."""
        try:
            record = json.loads(self.record.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return record if isinstance(record, dict) and record.keys() >= RECORDED else {}

    def fingerprint(self) -> str:
        """Another value whenever the submission, the assignment or the limits are others."""
        digest = hashlib.sha256(json.dumps(asdict(self.limits)).encode())
        for path in (self.source, self.file):
            digest.update(path.read_bytes() if path.exists() else b"-")
        if self.drawn_for:
            digest.update(repr(self.drawn_for).encode())
        return digest.hexdigest()


def _submitted(job: Job) -> tuple[Any, list[str]]:
    """The notebook to grade: the submission in the assignment's form, or the untouched assignment with the reason."""
    release = nbformat.read(job.release, 4)
    for cell in release.cells:
        cell.metadata["assignment"] = True
    if job.drawn_for:
        variants.put_in(release, *job.drawn_for)
    try:
        submission = read(job.file)
        found, own = ids(submission), set(job.others[job.chapter])
        if not found & own:
            elsewhere = [name for name, labels in job.others.items() if found & set(labels)]
            if elsewhere:
                raise Unreadable(f"this is the assignment of the chapter {elsewhere[0]}")
        return rebuild(release, submission)
    except Unreadable as error:
        mark_unanswered(release, release)
        return release, [f"graded as if nothing had been handed in: {error}"]


def _settings(job: Job) -> Any:
    """nbgrader's settings for this submission."""
    settings = config(job.root)
    settings.Autograde.autograde_preprocessors = [InSandbox, SaveAutoGrades, CheckCellMetadata]
    settings.Application.log_level = "WARNING"
    return settings


def _outcomes(job: Job) -> dict[str, str]:
    """Check → what it said, from the notebook that nbgrader ran."""
    notebook = nbformat.read(job.autograded, 4)
    notebook, _ = Presentation().preprocess(notebook, {})
    return {
        cell.metadata.nbgrader.grade_id: cell.metadata.outcome for cell in notebook.cells if "outcome" in cell.metadata
    }


def grade(job: Job) -> None:
    """Grade a submission and write its record; the record's `error` is set if nbgrader failed."""
    start, used = time.monotonic(), time.process_time()
    InSandbox.limits, InSandbox.fonts = job.limits, job.root / "cache" / "matplotlib"
    InSandbox.events, InSandbox.cpu_seconds = [], 0.0
    notebook, events = _submitted(job)
    target = job.root / "submitted" / job.student / job.chapter / f"{job.chapter}.ipynb"
    shutil.rmtree(target.parent, ignore_errors=True)
    target.parent.mkdir(parents=True)
    nbformat.write(notebook, target)
    outcome = NbGraderAPI(config=_settings(job)).autograde(job.chapter, job.student, force=True, create=True)
    record = {
        "student": job.student,
        "chapter": job.chapter,
        "file": readable(str(job.file)),
        "fingerprint": job.fingerprint(),
        "events": [*events, *InSandbox.events],
        "error": "" if outcome["success"] else outcome["log"][-3000:] + (outcome["error"] or ""),
        "outcomes": _outcomes(job) if outcome["success"] else {},
    }
    if outcome["success"]:
        write_feedback(job, record["events"])
    record["seconds"] = round(time.monotonic() - start, 1)
    record["cpu_seconds"] = round(time.process_time() - used + InSandbox.cpu_seconds, 1)
    _write(job, record)


def _write(job: Job, record: dict[str, Any]) -> None:
    job.record.parent.mkdir(parents=True, exist_ok=True)
    job.record.write_text(json.dumps(record, indent=1, ensure_ascii=False), "utf-8")


def give_up(job: Job, message: str) -> None:
    """The record of a submission on which the grader itself failed."""
    about = {"student": job.student, "chapter": job.chapter, "file": readable(str(job.file)), "fingerprint": ""}
    _write(job, {**about, "events": [], "error": readable(message), "outcomes": {}, "seconds": 0})


def write_feedback(job: Job, events: list[str]) -> None:
    """The HTML page for the student, from the graded notebook and the gradebook as they stand now."""
    from nbconvert.exporters import HTMLExporter  # pyright: ignore[reportMissingImports]

    with gradebook(job.root) as book:
        entry = book.find_submission_notebook(job.chapter, job.chapter, job.student)
        grades, changed = entry.grades, changed_by_hand(entry)
        unmarked = [grade for grade in grades if grade.needs_manual_grade]
        waiting, to_confirm = (
            sum(grade.max_score for grade in unmarked if is_written(grade.name) == written) for written in (True, False)
        )
        unseen = [grade.name for grade in grades if is_unseen(grade)]
        exercises = rows(grades, titles(nbformat.read(job.release, 4)))
    settings = config(job.root)
    settings.HTMLExporter.template_name = "feedback"
    settings.HTMLExporter.extra_template_basedirs = [str(TEMPLATES)]
    settings.HTMLExporter.preprocessors = [GetGrades, Presentation, CSSHTMLHeaderPreprocessor]
    exporter = HTMLExporter(config=settings)
    exporter.register_filter("students_markdown", partial(markdown, trusted=False))
    exporter.register_filter("assignments_markdown", partial(markdown, trusted=True))
    nbgrader = {"student": job.student, "assignment": job.chapter, "notebook": job.chapter}
    resources = {
        "nbgrader": {**nbgrader, "db_url": settings.CourseDirectory.db_url},
        "events": events,
        "exercises": exercises,
        "changed": changed,
        "unseen": unseen,
        "waiting": counted(waiting, "point") if waiting else "",
        "to_confirm": counted(to_confirm, "point") if to_confirm else "",
    }
    page, _ = exporter.from_notebook_node(nbformat.read(job.autograded, 4), resources=resources)
    job.feedback.parent.mkdir(parents=True, exist_ok=True)
    job.feedback.write_text(page, "utf-8")
