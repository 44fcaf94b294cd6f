"""A training run: a corpus becomes a translator in a folder, with its checkpoints and its metrics."""

import math
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from transformer_lib.data.batches import token_batches
from transformer_lib.evaluation import perplexity
from transformer_lib.training import DIVERGED, StepRecord, adam, epochs, seeded, train
from transformer_lib.transformer import count_parameters

from .checkpoints import CHECKPOINTS, RunCheckpoints, load_checkpoint, save_checkpoint, step_of
from .distributed import broadcast, processes
from .metrics import Metrics
from .own_corpus import MOST_HELD_OUT, SHARE, SPLIT_SEED, Corpus
from .preparation import (
    ENCODED,
    EncodedPairs,
    check_token_counts,
    encode_once,
    heads,
    lacking,
    new_translator,
    read_corpus,
)
from .settings import RUN_CONFIG, RunConfig
from .translator import MODEL, Translator, progress_bar, run_checkpoints
from .update import Update, chosen_precision, gradient_scaler

LOCK = ".lock"  # a file in the folder of a run, held while the run writes there
LARGE = 20_000_000  # parameters; a processor takes days to train as many


class Run:
    """A training run in its folder: open it, then go through its steps.

    Of several processes (torchrun), rank 0 alone writes, validates and decides when to stop.
    """

    config: RunConfig
    translator: Translator
    val_ids: list[tuple[list[int], list[int]]]  # rank 0 alone has them
    metrics: Metrics
    interrupted: Callable[[], bool]  # whether Ctrl-C came

    def __init__(self, folder: Path, config: RunConfig, device: str, resume: bool):
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
        base = newest or config.begun_from
        translator = Translator.load(base) if base else new_translator(config, pairs)
        is_own = all(getattr(translator.model.config, name) == value for name, value in config.model.items())
        if not is_own or (translator.source, translator.target) != (config.source, config.target):
            raise ValueError(f"{base} is of another run than {self.folder / RUN_CONFIG}; take it away")
        self.val_ids = self._write(config, translator, pairs)
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

    def _write(self, config: RunConfig, translator: Translator, pairs: Corpus) -> list[tuple[list[int], list[int]]]:
        """Write the run's settings and encoded pairs; returns the ids for validation."""
        replace(config, digest=pairs.digest).write(self.folder)
        val_ids, limit = translator.encode(pairs.held_out), config.training.batch_tokens
        train_ids = encode_once(self.folder, translator, pairs)
        check_token_counts("training", pairs, train_ids, translator.model.config, limit)
        check_token_counts("validation", pairs.held_out, val_ids, translator.model.config, limit)
        return val_ids

    def _described(self, pairs: Corpus, is_new: bool) -> Iterator[str]:
        """What the run trains, and on what."""
        counted = f"{len(pairs):,} pairs to train on, {len(pairs.held_out):,} for validation{pairs.report()}"
        drawn = isinstance(self.config.data, list) and not self.config.validation
        yield counted + f" (one in {SHARE}, at most {MOST_HELD_OUT:,}, drawn with seed {SPLIT_SEED})" * drawn
        if pairs.shared:
            shared = f"{pairs.shared:,} of the validation pairs are also trained on"
            yield f"{shared}, and are no test of what was learned; add --clean to leave them out of training"
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


def goes_on(folder: Path, resume: bool) -> bool:
    """Whether a run goes on with what its folder has: as asked for, or where torchrun has started it again.

    torchrun starts all processes again, with the same command line, after one of them died.

    Raises:
        ValueError: there is nothing to go on from, or something that the run would overwrite.
    """
    begun = bool(RunCheckpoints(folder / CHECKPOINTS).paths())
    restarted = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    if resume and not begun:
        raise ValueError(f"{folder} has no checkpoint to go on from; leave --resume out to start")
    resume = resume or (restarted and begun)
    if not resume and (begun or (folder / MODEL).exists()):
        raise ValueError(f"{folder} holds a trained translator; add --resume to go on, or name another folder")
    return resume


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Inside the `with` block no other run writes into this folder; the hold ends with the process, however it ends.

    Raises:
        ValueError: another run holds it, or its lock is a link: taking it would empty the file behind it.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / LOCK).is_symlink():
        raise ValueError(f"{folder / LOCK} is a link; delete it")
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise ValueError(f"another run writes into {folder}; wait until it ends, or name another folder") from None
    try:
        yield
    finally:
        is_refused = [path.name for path in folder.iterdir()] == [LOCK]  # before anything was written
        if os.name == "nt":  # removes no open file
            lock.release()
        if is_refused:
            (folder / LOCK).unlink()
            with suppress(OSError):  # another run may have written into a folder above
                for path in made:
                    path.rmdir()
        lock.release()


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
