"""Grading one submission: rebuild, let nbgrader grade, note what happened."""

import hashlib
import json
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.apps import NbGraderAPI  # pyright: ignore[reportMissingImports]
from nbgrader.preprocessors import CheckCellMetadata, SaveAutoGrades  # pyright: ignore[reportMissingImports]

from workshop.course import variants
from workshop.course.grading.course import config
from workshop.course.grading.execute import InSandbox
from workshop.course.grading.feedback import Presentation
from workshop.course.grading.rebuild import UNREAD, Unreadable, ids, mark_unanswered, read, rebuild
from workshop.course.grading.sandbox import Limits
from workshop.course.grading.submissions import Submission, readable

RECORDED = {"fingerprint", "events", "error", "outcomes"}


def notebook(folder: Path, chapter: str) -> Path:
    """Where nbgrader has the notebook of a chapter, below a folder of one kind or student."""
    return folder / chapter / f"{chapter}.ipynb"


@dataclass
class Job:
    """One submission to grade."""

    root: Path  # the course folder
    submission: Submission
    limits: Limits = field(default_factory=Limits)
    others: dict[str, list[str]] = field(default_factory=dict)  # chapter → ids of its answers, to name a mix-up
    key: bytes = field(default=b"", repr=False)  # of the class

    @property
    def record(self) -> Path:
        return self.root / "records" / self.submission.chapter / f"{self.submission.student}.json"

    def handed_out(self, kind: str) -> Path:
        """The assignment: its source or its release."""
        return notebook(self.root / kind, self.submission.chapter)

    def of_student(self, kind: str) -> Path:
        """The notebook of the student: submitted or autograded."""
        return notebook(self.root / kind / self.submission.student, self.submission.chapter)

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
        for path in (self.handed_out("source"), self.submission.file):
            digest.update(path.read_bytes() if path.exists() else b"-")
        if self.key:
            digest.update(repr((self.key, self.submission.listed)).encode())
        return digest.hexdigest()


def _submitted(job: Job) -> tuple[Any, list[str]]:
    """The notebook to grade: the submission in the assignment's form, or the untouched assignment with the reason."""
    release = nbformat.read(job.handed_out("release"), 4)
    for cell in release.cells:
        cell.metadata["assignment"] = True
    if job.key:
        variants.put_in(release, job.key, job.submission.listed)
    try:
        submission = read(job.submission.file)
        found, own = ids(submission), set(job.others[job.submission.chapter])
        if not found & own:
            elsewhere = [name for name, labels in job.others.items() if found & set(labels)]
            if elsewhere:
                raise Unreadable(f"this is the assignment of the chapter {elsewhere[0]}")
        return rebuild(release, submission)
    except Unreadable as error:
        mark_unanswered(release, release, UNREAD)
        return release, [f"graded as if nothing had been handed in: {error}"]


def _outcomes(job: Job) -> dict[str, str]:
    """Check → what it said, from the notebook that nbgrader ran."""
    ran, _ = Presentation().preprocess(nbformat.read(job.of_student("autograded"), 4), {})
    return {cell.metadata.nbgrader.grade_id: cell.metadata.outcome for cell in ran.cells if "outcome" in cell.metadata}


def grade(job: Job) -> None:
    """Grade a submission and write its record; the record's `error` is set if nbgrader failed."""
    start, used = time.monotonic(), time.process_time()
    InSandbox.limits, InSandbox.fonts = job.limits, job.root / "cache" / "matplotlib"
    InSandbox.events, InSandbox.cpu_seconds = [], 0.0
    submitted, events = _submitted(job)
    target = job.of_student("submitted")
    shutil.rmtree(target.parent, ignore_errors=True)
    target.parent.mkdir(parents=True)
    nbformat.write(submitted, target)
    one, settings = job.submission, config(job.root)
    settings.Autograde.autograde_preprocessors = [InSandbox, SaveAutoGrades, CheckCellMetadata]
    settings.Application.log_level = "WARNING"
    outcome = NbGraderAPI(config=settings).autograde(one.chapter, one.student, force=True, create=True)
    error = "" if outcome["success"] else outcome["log"][-3000:] + (outcome["error"] or "")
    _write(
        job,
        error,
        fingerprint=job.fingerprint(),
        events=[*events, *InSandbox.events],
        outcomes={} if error else _outcomes(job),
        seconds=round(time.monotonic() - start, 1),
        cpu_seconds=round(time.process_time() - used + InSandbox.cpu_seconds, 1),
    )


def _write(job: Job, error: str, **found: Any) -> None:
    one = job.submission
    about = {"student": one.student, "chapter": one.chapter, "file": readable(one.file), "error": error}
    job.record.parent.mkdir(parents=True, exist_ok=True)
    job.record.write_text(json.dumps(about | found, indent=1, ensure_ascii=False), "utf-8")


def give_up(job: Job, message: str) -> None:
    """The record of a submission on which the grader itself failed."""
    _write(job, readable(message), fingerprint="", events=[], outcomes={}, seconds=0)
