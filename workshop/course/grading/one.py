"""Grading one submission: rebuild, let nbgrader grade, write the feedback, note what happened."""

import hashlib
import json
import os
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
    LimitOutput,
    SaveAutoGrades,
)

from workshop.course.grading.course import config, gradebook
from workshop.course.grading.execute import BoundedExecute
from workshop.course.grading.feedback import Presentation, markdown
from workshop.course.grading.rebuild import Unreadable, ids, read, rebuild
from workshop.course.grading.submissions import readable

TEMPLATES = Path(__file__).resolve().parent / "templates"


def _limit(default: int, what: str) -> int:
    return field(default=default, metadata={"for": what})


@dataclass
class Limits:
    """What one submission may use."""

    cell_seconds: int = _limit(20, "for a cell of the student's or a check")
    notebook_seconds: int = _limit(600, "for a whole notebook, and of processor time for each of its kernels")
    memory_mb: int = _limit(4096, "of memory for a kernel")
    file_mb: int = _limit(64, "for a file that a notebook writes")
    output_kilobytes: int = _limit(32, "kept of what one cell prints")


@dataclass
class Job:
    """One submission to grade."""

    root: Path  # the course folder
    chapter: str
    student: str
    file: Path
    limits: Limits = field(default_factory=Limits)
    others: dict[str, list[str]] = field(default_factory=dict)  # chapter → ids of its answers, to name a mix-up

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

    def fingerprint(self) -> str:
        """Another value whenever the submission, the assignment or the limits are others."""
        digest = hashlib.sha256(json.dumps(asdict(self.limits)).encode())
        for path in (self.source, self.file):
            digest.update(path.read_bytes() if path.exists() else b"-")
        return digest.hexdigest()


def _submitted(job: Job) -> tuple[Any, list[str]]:
    """The notebook to grade: the submission in the assignment's form, or the untouched assignment with the reason."""
    release = nbformat.read(job.release, 4)
    for cell in release.cells:
        cell.metadata["assignment"] = True
    try:
        submission = read(job.file)
        found, own = ids(submission), set(job.others[job.chapter])
        if not found & own:
            elsewhere = [name for name, labels in job.others.items() if found & set(labels)]
            if elsewhere:
                raise Unreadable(f"this is the assignment of the chapter {elsewhere[0]}")
        return rebuild(release, submission)
    except Unreadable as error:
        return release, [f"graded as if nothing had been handed in: {error}"]


def _settings(job: Job) -> Any:
    """nbgrader's settings for this submission."""
    settings = config(job.root)
    steps = [BoundedExecute, LimitOutput, SaveAutoGrades, CheckCellMetadata]
    settings.Autograde.autograde_preprocessors = steps
    settings.BoundedExecute.kernel_name = "executable-transformer"
    settings.BoundedExecute.cell_seconds = job.limits.cell_seconds
    settings.BoundedExecute.notebook_seconds = job.limits.notebook_seconds
    settings.BoundedExecute.output_kilobytes = job.limits.output_kilobytes
    settings.BoundedExecute.matplotlib_folder = str(job.root / "cache" / "matplotlib")
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
    start = time.monotonic()
    os.environ |= {
        "GRADING_MEMORY_MB": str(job.limits.memory_mb),
        "GRADING_CPU_SECONDS": str(job.limits.notebook_seconds),
        "GRADING_FILE_MB": str(job.limits.file_mb),
    }
    notebook, events = _submitted(job)
    target = job.root / "submitted" / job.student / job.chapter / f"{job.chapter}.ipynb"
    shutil.rmtree(target.parent, ignore_errors=True)
    target.parent.mkdir(parents=True)
    nbformat.write(notebook, target)
    BoundedExecute.events = []
    outcome = NbGraderAPI(config=_settings(job)).autograde(job.chapter, job.student, force=True, create=True)
    record = {
        "student": job.student,
        "chapter": job.chapter,
        "file": readable(str(job.file)),
        "fingerprint": job.fingerprint(),
        "events": [*events, *BoundedExecute.events],
        "error": "" if outcome["success"] else outcome["log"][-3000:] + (outcome["error"] or ""),
        "outcomes": _outcomes(job) if outcome["success"] else {},
    }
    if outcome["success"]:
        write_feedback(job, record["events"])
    job.record.parent.mkdir(parents=True, exist_ok=True)
    record["seconds"] = round(time.monotonic() - start, 1)
    job.record.write_text(json.dumps(record, indent=1, ensure_ascii=False), "utf-8")


def write_feedback(job: Job, events: list[str]) -> None:
    """The HTML page for the student, from the graded notebook and the gradebook as they stand now."""
    from nbconvert.exporters import HTMLExporter  # pyright: ignore[reportMissingImports]

    with gradebook(job.root) as book:
        grades = book.find_submission_notebook(job.chapter, job.chapter, job.student).grades
        waiting = sum(grade.max_score for grade in grades if grade.needs_manual_grade)
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
        "waiting": f"{waiting:g}" if waiting else "",
    }
    page, _ = exporter.from_notebook_node(nbformat.read(job.autograded, 4), resources=resources)
    job.feedback.parent.mkdir(parents=True, exist_ok=True)
    job.feedback.write_text(page, "utf-8")
