"""Several submissions at a time, in processes that are ended and replaced when one takes too long."""

import contextlib
import multiprocessing
import os
import queue
import signal
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.connection import Connection
from typing import Any

from tqdm import tqdm

from workshop.course.grading.one import Job, give_up, grade

GRACE_SECONDS = 120  # beyond a notebook's own time, for nbgrader and for processes to start


def _serve(connection: Connection, log: str) -> None:
    """The body of a grading process; silent, for nbgrader says much and it is all in the record."""
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    with contextlib.suppress(EOFError):
        while True:
            job = connection.recv()
            try:
                grade(job)
            except Exception as error:
                give_up(job, f"{type(error).__name__}: {error}")
            connection.send(True)


class Worker:
    """A process that grades one submission after the other."""

    process: Any = None

    def grade(self, job: Job) -> None:
        """Grade one, within its time."""
        began = time.monotonic()
        job.record.unlink(missing_ok=True)  # that of an earlier file must not pass for this one's
        try:
            if self.process is None:
                context = multiprocessing.get_context("spawn")
                self.connection, theirs = context.Pipe()
                self.process = context.Process(target=_serve, args=(theirs, str(job.root / "grading.log")))
                self.process.start()
                theirs.close()
            self.connection.send(job)
            if not self.connection.poll(job.limits.notebook_seconds + GRACE_SECONDS):
                raise TimeoutError
            self.connection.recv()
        except TimeoutError:
            self.stop()
            give_up(job, f"no end after {time.monotonic() - began:.0f} s")
        except (EOFError, OSError):
            self.stop()
            give_up(job, "the grading process ended without a word: see grading.log")

    def stop(self) -> None:
        """End the process with the checker that it started; a sandbox ends with its checker."""
        if self.process is not None:
            for end in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError):
                    end(self.process.pid, signal.SIGKILL)
            self.process.join()
        self.process = None


def grade_all(jobs: list[Job], at_once: int) -> None:
    """Grade several at a time, with a line on each to which something happened."""
    free, workers = queue.SimpleQueue[Worker](), [Worker() for _ in range(at_once)]
    for worker in workers:
        free.put(worker)

    def one(job: Job) -> None:
        worker = free.get()
        try:
            worker.grade(job)
        finally:
            free.put(worker)

    with ThreadPoolExecutor(at_once) as pool:
        futures = {pool.submit(one, job): job for job in jobs}
        try:
            for done in tqdm(as_completed(futures), total=len(jobs), unit="submission"):
                done.result()
                job, record = futures[done], futures[done].recorded()
                notes = "; ".join(record.get("events", [])) or (
                    "THE GRADER FAILED" if record.get("error", True) else ""
                )
                if notes:
                    tqdm.write(f"{job.submission.chapter}, {job.submission.student}: {notes}")
        finally:  # Ctrl-C, for one: the processes stand in groups of their own, which it does not reach
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.stop()
