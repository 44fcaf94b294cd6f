"""The records of a run: a JSON line for each step in metrics.jsonl."""

import io
import json
import os
from pathlib import Path
from typing import Any

from transformer_lib.weight_files import check_regular

FILE = "metrics.jsonl"


class Metrics:
    """Writes the record of each step, and remembers the validations of all steps so far.

    Records of later steps than steps_done are removed: the run makes these steps again from its checkpoint. Without a
    folder nothing is written.

    Raises:
        ValueError: metrics.jsonl is a link, or no regular file.
    """

    def __init__(self, folder: Path | None, steps_done: int = 0):
        self.perplexities: list[float] = []  # of every validation
        self.last: dict[str, Any] = {}
        self.file = None
        if folder is None:
            return
        path = folder / FILE
        if path.is_symlink():
            raise ValueError(f"{path} is a link; a run writes into its own folder alone: move the link away")
        check_regular(path)
        self.file = path.open("ab")
        kept = 0
        for line in io.BytesIO(path.read_bytes()):  # a line ends with \n alone
            record = _record(line)
            if record is None or record["step_num"] > steps_done:
                break
            self._remember(record)
            kept += len(line)
        self.file.truncate(kept)  # in place, so that a kill here leaves either the old file or the shortened one

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()

    def write(self, record: dict[str, Any]) -> None:
        """Add the record of a step, whose numbers are finite: training ends at any other.

        Raises:
            OSError: a full disk.
        """
        self._remember(record)
        if self.file is None:
            return
        try:
            self.file.write(json.dumps(record).encode() + b"\n")
            self.file.flush()
            if "val_perplexity" in record:
                os.fsync(self.file.fileno())
        except OSError as error:
            remedy = "make room; with a checkpoint --resume goes on, else start again"
            raise OSError(f"{self.file.name}: {error}; {remedy}") from error

    @property
    def since_best(self) -> int:
        """How many validations have passed since the best one."""
        if not self.perplexities:
            return 0
        return len(self.perplexities) - 1 - self.perplexities.index(min(self.perplexities))

    def shown(self, tokens_per_second: float) -> dict[str, str]:
        """What the progress bar shows of the last step."""
        shown = {"loss": f"{self.last['loss_nats_per_token']:.3f}", "tokens/s": f"{tokens_per_second:,.0f}"}
        return shown | ({"val_perplexity": f"{self.perplexities[-1]:.3f}"} if self.perplexities else {})

    def _remember(self, record: dict[str, Any]) -> None:
        self.last = record
        if "val_perplexity" in record:
            self.perplexities.append(record["val_perplexity"])


def _record(line: bytes) -> dict[str, Any] | None:
    # What a line holds; None if a kill cut it short.
    try:
        record = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step_num"), int) else None
