"""A training run: a corpus becomes a translator in a folder, with its checkpoints and its metrics."""

import io
import json
import math
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from transformer_lib.data.batches import token_batches
from transformer_lib.evaluation import perplexity
from transformer_lib.training import DIVERGED, StepRecord, adam, epochs, seeded, train
from transformer_lib.transformer import count_parameters
from transformer_lib.weight_files import check_regular

from .checkpoints import load_checkpoint, only_writer, save_checkpoint, step_of, write_file
from .own_corpus import Corpus
from .preparation import ENCODED, EncodedPairs, heads, lacking, prepare, read_corpus
from .settings import RunConfig
from .translator import Translator, progress_bar, run_checkpoints
from .update import Update, broadcast, check_accumulate, chosen_precision, gradient_scaler, processes

METRICS = "metrics.jsonl"  # a line of JSON for each step
LAUNCH = ".launch"  # holds torchrun's name for the last launch; a process that it starts again has the same
LARGE = 20_000_000  # parameters; a processor takes days to train as many


class Run:
    """A training run in its folder: open it, then go through its steps.

    Of several processes (torchrun), rank 0 alone writes, validates and decides when to stop.
    """

    config: RunConfig
    translator: Translator
    val_ids: list[tuple[list[int], list[int]]]  # rank 0 alone has them
    metrics: "Metrics"
    interrupted: Callable[[], bool]  # whether Ctrl-C came

    def __init__(self, folder: Path, config: RunConfig, device: str, resume: bool):
        check_accumulate(config.training.accumulate)  # before the corpus is prepared
        self.folder, self.device, self.is_first = folder, device, processes().rank == 0
        self.checkpoints = run_checkpoints(folder, config.keep_last)
        self.notes: list[str] = []  # what there is to say before the first step; nothing of the ranks behind the first
        begun: Any = None
        pairs: Corpus | None = None
        with seeded(config.training.seed, torch.device(device)):
            if self.is_first:
                config = replace(config, precision=chosen_precision(config.precision, torch.device(device)))
                pairs = read_corpus(config)
                begun = config, *self._begun(config, pairs, resume)
        # Rank 0 has read the texts and chosen the precision; the others take what it has.
        self.config, self.translator, newest = broadcast(begun, device)
        self.model = self.translator.model.to(device)
        self.optimizer = adam(self.model, self.config.training)
        self.scaler = gradient_scaler(self.config.precision, torch.device(device))
        self.steps_done = load_checkpoint(newest, self.model, self.optimizer, self.scaler) if newest else 0
        self.train_ids = EncodedPairs(folder / ENCODED)
        self.saved = self.steps_done  # the step of the newest checkpoint
        self.notes += [] if pairs is None else self._described(pairs, is_new=not resume)

    def _begun(self, config: RunConfig, pairs: Corpus, resume: bool) -> tuple[Translator, Path | None]:
        """Rank 0's part of the beginning: the translator, and the checkpoint that a resumed run goes on from."""
        self.checkpoints.clean()
        newest = None
        if resume:
            newest, self.notes = self.checkpoints.newest_intact()
            if (done := step_of(newest)) > config.training.num_steps:
                limit = f"num_steps = {config.training.num_steps}, but {self.folder} has {done} behind it"
                raise ValueError(f"{limit}; give a larger one")
        translator, self.val_ids = prepare(self.folder, config, pairs, newest)
        if launch := os.environ.get("TORCHELASTIC_RUN_ID"):
            write_file(self.folder / LAUNCH, launch)
        return translator, newest

    @classmethod
    @contextmanager
    def open(cls, folder: Path, config: RunConfig, device: str, resume: bool) -> Iterator["Run"]:
        """Inside the `with` block the run can make its steps, and no other run writes into its folder.

        Args:
            resume: go on from the newest intact checkpoint.

        Raises:
            ValueError: another run writes there; settings that do not fit; a loss that is no finite number.
            KeyboardInterrupt: with what is kept.
        """
        with only_writer(folder) if processes().rank == 0 else nullcontext():
            run = cls(folder, config, device, resume)
            try:
                writes = folder if run.is_first else None
                steps_done = run.steps_done if resume else -1  # not even what a killed start measured
                with Metrics(writes, steps_done) as run.metrics, first_interrupt() as run.interrupted:
                    yield run
            except KeyboardInterrupt:
                kept = f"at the checkpoint of step {run.saved}; --resume goes on"
                raise KeyboardInterrupt(kept if run.checkpoints.paths() else "before the first checkpoint") from None
            except FloatingPointError as error:
                kept = f"the checkpoint of step {run.saved} is kept"
                kept = kept if run.checkpoints.paths() else "no checkpoint was written"
                raise ValueError(f"{error}, in another folder; {kept}") from error
            except RuntimeError as error:
                from torch._dynamo.exc import TorchDynamoException  # importing it takes a second

                if not isinstance(error, TorchDynamoException):
                    raise
                why = str(error).strip().splitlines()[0]
                needs = "it needs a C++ compiler, and folders without a space in their names"
                raise ValueError(f"compile = True fails: {why}; {needs}, or train without it") from error

    def base(self) -> Iterator[str]:
        """Measure, once, the translator that the run begins with: it is the checkpoint of step 0, and may be the best.

        Gives what there is to say of it: nothing in a run that begins with new weights, and in ranks behind the first.

        Raises:
            ValueError: its validation perplexity is no finite number.
        """
        if self.is_first and self.config.begun_from and not self.steps_done:
            if not self.metrics.perplexities:
                found = self.validate(None)
                self.metrics.write({"step_num": 0, "val_perplexity": found})
                self.save(0, found)
            found = f"validation perplexity {self.metrics.perplexities[0]:.4f}"
            yield f"before the first step {self.config.begun_from} has {found}"

    def steps(self, minutes: float | None = None) -> Iterator[StepRecord]:
        """Make the steps to come, with validations and checkpoints on the way; gives the record of each.

        They end with num_steps, with the minutes, when validation gets no better, or with the first Ctrl-C.

        Args:
            minutes: of training, at most; None: no limit.

        Raises:
            FloatingPointError: the loss or the perplexity is no finite number.
            KeyboardInterrupt: after Ctrl-C, with a checkpoint of the last step.
        """
        list(self.base())
        config, training, done = self.config, self.config.training, self.steps_done
        stop_at = time.monotonic() + (math.inf if minutes is None else minutes * 60)
        if broadcast(self._patience_is_over(), self.device):  # it was killed after it stopped early
            return
        batches = epochs(self.train_ids, self.model.config, training, done * training.accumulate)
        # Of this call alone: what several processes share must be gone before their group is.
        update = Update(self.model, config.precision, config.r_drop, config.compile, self.scaler)
        for record in train(self.model, self.optimizer, batches, training, done, update):
            last = record.step_num == training.num_steps or time.monotonic() > stop_at
            line = asdict(record) | {"overflows": update.overflows}
            due = last or record.step_num % config.validate_every == 0
            if self.is_first and due:
                line["val_perplexity"] = self.validate(record)
            self.metrics.write(line)  # before the checkpoint, whose steps are then all on record
            stopping = self.interrupted()
            if due or stopping:  # after Ctrl-C as it is: validating would take long
                self.save(record.step_num, line.get("val_perplexity"))
            yield record
            if broadcast(last or stopping or self._patience_is_over(), self.device):
                break
        if self.interrupted() and self.saved < training.num_steps:
            raise KeyboardInterrupt

    def validate(self, record: StepRecord | None) -> float:
        """The perplexity on the held-out pairs after this step; None: before the first.

        Raises:
            FloatingPointError: it is no finite number after the step.
            ValueError: it was none before the first.
        """
        special = {name: getattr(self.model.config, name) for name in ("pad_id", "bos_id", "eos_id")}
        found = perplexity(self.model, token_batches(self.val_ids, self.config.training.batch_tokens, **special))
        if record is None and not math.isfinite(found):
            remedy = "begin with another translator, or with other validation pairs"
            raise ValueError(f"{self.config.begun_from} has validation perplexity {found}; {remedy}")
        if record and not math.isfinite(found):
            after = f"step {record.step_num} at rate {record.learning_rate:.3g}"
            raise FloatingPointError(f"{after} leaves validation perplexity {found}: {DIVERGED}")
        return found

    def save(self, step_num: int, val_perplexity: float | None) -> None:
        """Write a checkpoint, and remove those that need not be kept. Raises as save_checkpoint does."""
        if self.is_first:
            path, translator = self.checkpoints.path(step_num), self.translator.described()
            save_checkpoint(path, self.model, self.optimizer, step_num, val_perplexity, self.scaler, translator)
            self.checkpoints.remove_old()
            self.saved = step_num

    def summary(self) -> list[str]:
        """What the run has reached, and the next command; nothing of the ranks behind the first."""
        if not self.is_first:
            return []
        num_steps, validated, said = self.config.training.num_steps, self.metrics.perplexities, []
        if self._patience_is_over():
            best = f"since the best, {min(validated):.4f}"
            said.append(f"stopped early: {self.metrics.since_best} validations {best}")
        step = self.metrics.last.get("step_num", self.steps_done)
        reached = f"{self.folder} has made {step:,} of {num_steps:,} steps"
        if validated and (best := self.checkpoints.best()):  # it may have been taken away
            step = step_of(best)
            what = f"the best is step {step:,}"
            if not step:
                what = f"none better than before: the best is step 0, {self.config.begun_from} as it was"
            reached += f"; {what}, validation perplexity {min(validated):.4f}"
        said.append(reached)
        if self.steps_done == num_steps:
            said.append("finished before; for more give a larger num_steps: --resume --training num_steps=")
        return [*said, f"next: python -m transformer_run evaluate {shlex.quote(str(self.folder))}"]

    def _patience_is_over(self) -> bool:
        return self.metrics.since_best >= (self.config.patience or math.inf)

    def _described(self, pairs: Corpus, is_new: bool) -> Iterator[str]:
        """What the run trains, and on what."""
        yield from pairs.described()
        tokenizers = {id(t): t for t in (self.translator.source_tokenizer, self.translator.target_tokenizer)}
        yield f"vocabulary: {' and '.join(f'{len(t):,}' for t in tokenizers.values())} tokens"
        if is_new:
            yield from lacking("validation", pairs.held_out, self.val_ids, self.translator)
            read = progress_bar(pairs, None, "comparing with the vocabulary")
            yield from lacking("training", read, self.train_ids, self.translator)
        yield from heads(self.model.config, is_new and not self.config.begun_from)
        parameters, kind = count_parameters(self.model), torch.device(self.device).type
        yield f"{parameters} parameters, {self.device}, {self.config.precision}, {self.steps_done} steps done"
        if kind == "cpu" and parameters > LARGE and not self.steps_done:
            yield "warning: so many take days on a CPU; use a GPU, or --model small in another folder"


@contextmanager
def first_interrupt() -> Iterator[Callable[[], bool]]:
    """Inside the `with` block the first Ctrl-C only sets what the function given returns; a second one interrupts.

    Nothing changes in a thread other than the main one, which gets no signals, nor where somebody else handles them.
    """
    came, before = threading.Event(), signal.getsignal(signal.SIGINT)
    is_ours = threading.current_thread() is threading.main_thread() and before is signal.default_int_handler

    def note(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        came.set()

    if is_ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield came.is_set
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)


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
        path = folder / METRICS
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
