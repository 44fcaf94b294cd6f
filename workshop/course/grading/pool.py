"""Several submissions at a time, each in a process of its own that cannot take the others down."""

import contextlib
import json
import multiprocessing
import os
import resource
import signal
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from workshop.course.grading.one import Job, grade
from workshop.course.grading.submissions import readable

GRACE_SECONDS = 240  # beyond a notebook's own time, for nbgrader and for kernels to start


def _given_up(job: Job, message: str) -> None:
    """The record of a submission on which the grader itself failed."""
    record = {"student": job.student, "chapter": job.chapter, "file": readable(str(job.file)), "fingerprint": ""}
    job.record.parent.mkdir(parents=True, exist_ok=True)
    record |= {"events": [], "error": message, "outcomes": {}, "seconds": 0}
    job.record.write_text(json.dumps(record, indent=1), "utf-8")


def _stop(process: Any) -> None:
    """End a grading process. A kernel of its own ends by itself when it finds its parent gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def _add_cpu_time(job: Job) -> None:
    """Note the processor time of grader and kernels: it says more than a clock on a busy machine."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    record = json.loads(job.record.read_text("utf-8"))
    record["cpu_seconds"] = round(sum(one.ru_utime + one.ru_stime for one in used), 1)
    job.record.write_text(json.dumps(record, indent=1, ensure_ascii=False), "utf-8")


def _in_a_group(job: Job) -> None:
    """The body of a grading process; silent, for nbgrader says much and it is all in the record."""
    os.setpgrp()
    log = (job.root / "grading.log").open("a", buffering=1)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    try:
        grade(job)
        _add_cpu_time(job)
    except BaseException as error:
        _given_up(job, f"{type(error).__name__}: {error}")
        raise


def grade_all(jobs: list[Job], at_once: int) -> None:
    """Grade several at a time, each in a process of its own, with a line on each."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["workshop.course.grading.one"])  # nbgrader once, not for each submission
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[3])  # where the server finds it
    running: dict[Any, tuple[Any, Job, float]] = {}
    try:
        _grade_all(jobs, at_once, context, running)
    finally:  # Ctrl-C, for one: graders stand in groups of their own, which it does not reach
        for process, _, _ in running.values():
            _stop(process)


def _grade_all(jobs: list[Job], at_once: int, context: Any, running: dict[Any, tuple[Any, Job, float]]) -> None:
    waiting, done, start = list(reversed(jobs)), 0, time.monotonic()
    while waiting or running:
        while waiting and len(running) < at_once:
            job = waiting.pop()
            job.record.unlink(missing_ok=True)  # that of an earlier file must not pass for this one's
            process = context.Process(target=_in_a_group, args=(job,))
            process.start()
            running[process.sentinel] = (process, job, time.monotonic())
        for sentinel in wait(list(running), timeout=1):
            process, job, began = running.pop(sentinel)
            process.join()
            if not job.record.exists():
                _given_up(job, "the grading process ended without a word: see grading.log")
            done += 1
            _show(job, done, len(jobs), began, start)
        for sentinel, (process, job, began) in list(running.items()):
            if time.monotonic() - began > job.limits.notebook_seconds + GRACE_SECONDS:
                _stop(process)
                _given_up(job, f"no end after {time.monotonic() - began:.0f} s")
                running.pop(sentinel)
                done += 1
                _show(job, done, len(jobs), began, start)


def _show(job: Job, done: int, total: int, began: float, start: float) -> None:
    """One line on a graded submission, with an estimate of what is left."""
    now = time.monotonic()
    left = (now - start) / done * (total - done)
    record = json.loads(job.record.read_text("utf-8"))
    notes = "; ".join(record["events"]) or ("THE GRADER FAILED" if record["error"] else "")
    line = f"[{done}/{total}] {job.chapter}, {job.student}: {now - began:.0f} s, about {left / 60:.0f} min left"
    print(f"{line}. {notes}" if notes else line, flush=True)
