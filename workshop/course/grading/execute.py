"""Running a submission: its cells go to a checker (checker.py) in .venv, and come back with their outputs."""

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nbformat import from_dict
from nbgrader.preprocessors import NbGraderPreprocessor  # pyright: ignore[reportMissingImports]

from workshop.course.grading.exercise_parts import told
from workshop.course.grading.sandbox import ROOT, Limits

PYTHON = ROOT / ".venv" / "bin" / "python"


class Checker:
    """A process that runs notebooks, one after the other; the next one starts it anew if it has ended."""

    process: Any = None

    def run(self, cells: list[dict[str, Any]], limits: Limits, fonts: Path) -> dict[str, Any]:
        """The outputs of the cells, what happened, and the processor time."""
        if self.process is None or self.process.poll() is not None:
            environment = {**os.environ, "MPLCONFIGDIR": str(fonts), "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
            self.process = subprocess.Popen(
                [PYTHON, "-m", "workshop.course.grading.checker"],
                cwd=ROOT,
                env=environment | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        self.process.stdin.write(json.dumps({"cells": cells, "limits": asdict(limits)}) + "\n")
        self.process.stdin.flush()
        if not (answer := self.process.stdout.readline()):
            raise RuntimeError("the checks' process ended: see grading.log")
        return json.loads(answer)


CHECKER = Checker()


class InSandbox(NbGraderPreprocessor):
    """Stands where nbgrader would execute the notebook in its own surroundings."""

    # Of the notebook in hand: nbgrader makes the instance itself.
    limits, fonts = Limits(), Path()
    events: list[str] = []  # noqa: RUF012
    cpu_seconds = 0.0

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        cells = [cell for cell in nb.cells if cell.cell_type == "code" and cell.source.strip()]
        answer = CHECKER.run([told(cell) for cell in cells], self.limits, self.fonts)
        for cell, outputs in zip(cells, answer["outputs"], strict=True):
            cell.outputs = [from_dict(output) for output in outputs]
        InSandbox.events, InSandbox.cpu_seconds = answer["events"], answer["cpu_seconds"]
        return nb, resources
