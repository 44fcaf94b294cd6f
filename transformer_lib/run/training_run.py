"""A training run: a corpus becomes a translator in a folder, with its checkpoints and its metrics."""

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout

from ..data.batches import in_background, token_batches
from ..data.corpora import load_pairs
from ..data.tokenizers import train_tokenizer
from ..evaluation import perplexity
from ..training import adam, epochs, train
from ..transformer import Transformer, count_parameters
from .checkpoints import RunCheckpoints
from .distributed import broadcast, processes, rank_0_first
from .metrics import Metrics
from .run_config import RunConfig
from .translator import Translator, progress_bar, run_checkpoints

Pairs = list[tuple[str, str]]
LOCK = ".lock"  # a file in the folder of a run, held while the run writes there


def train_translator(folder: Path, config: RunConfig, device: str, minutes: float | None, resume: bool) -> None:
    """Train, and write the translator, its checkpoints and its metrics into the folder.

    Of several processes (torchrun), the first alone writes, validates and decides when to stop.

    Args:
        minutes: of training, at most; None: no limit.
        resume: go on from the newest intact checkpoint.

    Raises:
        ValueError: another run writes there; settings that do not fit; a loss that is no finite number.
        KeyboardInterrupt: with what is kept.
    """
    first = processes().rank == 0
    with only_writer(folder) if first else nullcontext():
        _train(folder, config, device, math.inf if minutes is None else minutes * 60, resume)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Inside the `with` block no other run writes into this folder; the hold ends with the process, however it ends.

    Raises:
        ValueError: another run holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise ValueError(f"another run writes into {folder}; wait until it ends, or name another folder") from None
    try:
        yield
    finally:
        if [path.name for path in folder.iterdir()] == [LOCK]:  # refused before anything was written
            (folder / LOCK).unlink()
            folder.rmdir()
        lock.release()


class Run(NamedTuple):
    """What a run works with."""

    translator: Translator
    optimizer: torch.optim.Optimizer
    checkpoints: RunCheckpoints
    steps_done: int
    train_ids: list[tuple[list[int], list[int]]]
    val_ids: list[tuple[list[int], list[int]]]


def _train(folder: Path, config: RunConfig, device: str, seconds: float, resume: bool) -> None:
    first, training = processes().rank == 0, config.training
    patience = config.patience or math.inf
    run = _prepare(folder, config, device, resume)
    model, saved = run.translator.model, run.steps_done
    stop_at = time.monotonic() + seconds
    try:
        with Metrics(folder if first else None, run.steps_done) as metrics:
            batches = in_background(epochs(run.train_ids, model.config, training))
            records = train(model, run.optimizer, batches, training, run.steps_done)
            # A run may have been killed after it stopped early: then there is nothing left to do.
            records = records if broadcast(metrics.since_best < patience, device) else ()
            for record in (bar := progress_bar(records, training.num_steps, "training", run.steps_done, first)):
                last = record.step_num == training.num_steps or time.monotonic() > stop_at
                line: dict[str, Any] = asdict(record)
                validated = first and (last or record.step_num % config.validate_every == 0)
                if validated:
                    line["val_perplexity"] = _held_out_perplexity(run, training.batch_tokens, record.step_num)
                metrics.write(line)  # before the checkpoint, whose steps are then all on record
                if validated:
                    run.checkpoints.save(model, run.optimizer, record.step_num, line["val_perplexity"])
                    saved = record.step_num
                bar.set_postfix(metrics.shown(record.tokens_per_second), refresh=False)
                if broadcast(last or metrics.since_best >= patience, device):
                    break
            bar.close()
            if metrics.since_best >= patience:
                best = f"since the best, {min(metrics.perplexities):.4f}"
                print(f"stopped early: {metrics.since_best} validations {best}", file=sys.stderr)
    except KeyboardInterrupt:
        where = f"at the checkpoint of step {saved}; --resume goes on" if saved else "before the first checkpoint"
        raise KeyboardInterrupt(where) from None
    except FloatingPointError as error:
        kept = f"the checkpoint of step {saved} is kept" if saved else "no checkpoint was written"
        raise ValueError(f"{error}; {kept}") from error


def _held_out_perplexity(run: Run, batch_tokens: int, step_num: int) -> float:
    config = run.translator.model.config
    special = {"pad_id": config.pad_id, "bos_id": config.bos_id, "eos_id": config.eos_id}
    found = perplexity(run.translator.model, token_batches(run.val_ids, batch_tokens, **special))
    if not math.isfinite(found):
        raise FloatingPointError(f"step {step_num} has validation perplexity {found}: training diverged")
    return found


def _prepare(folder: Path, config: RunConfig, device: str, resume: bool) -> Run:
    """Read the corpus, make the translator or load it, and write what does not change while it trains."""
    first, num_steps = processes().rank == 0, config.training.num_steps
    pairs, held_out = (load_pairs(config.data, split, config.source, config.target) for split in ("train", "val"))
    torch.manual_seed(config.training.seed)
    translator = Translator.untrained(folder, device) if resume else new_translator(config, pairs)
    model = translator.model.to(device)
    optimizer = adam(model, config.training)
    checkpoints = run_checkpoints(folder, config.keep_last)
    with rank_0_first():  # which tidies up before the others read
        if first:
            checkpoints.clean()
        steps_done = _resume(checkpoints, model, optimizer) if resume else 0
    if steps_done > num_steps:
        raise ValueError(f"num_steps = {num_steps}, but {folder} has {steps_done} behind it; give a larger one")
    if first:
        if not resume:
            translator.save(folder)
        config.write(folder)
        size = f"{len(pairs)} pairs, {count_parameters(model)} parameters"
        print(f"{size}, {device}, {steps_done} steps done", file=sys.stderr)
    return Run(translator, optimizer, checkpoints, steps_done, translator.encode(pairs), translator.encode(held_out))


def new_translator(config: RunConfig, pairs: Pairs) -> Translator:
    """An untrained translator with tokenizers made from the training pairs."""
    sides = [[side for side, _ in pairs], [side for _, side in pairs]]
    sizes: dict[str, int] = {}
    if config.tokenizer == "spacy":  # words of two languages: two vocabularies
        languages = (config.source, config.target)
        tokenizers = [train_tokenizer("spacy", texts, code, 0) for texts, code in zip(sides, languages, strict=True)]
        sizes["source_vocabulary_size"] = len(tokenizers[0])
    else:
        tokenizers = [train_tokenizer(config.tokenizer, sides[0] + sides[1], None, config.vocabulary_size)] * 2
    model = Transformer(config.model_config(len(tokenizers[1]), **sizes))
    return Translator(model, tokenizers[0], tokenizers[1], config.source, config.target)


def restarted() -> bool:
    """Whether torchrun started this process again, with the same command line, after one of its processes died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def _resume(checkpoints: RunCheckpoints, model: Transformer, optimizer: torch.optim.Optimizer) -> int:
    """Load the newest intact checkpoint and put those aside that are newer and damaged; returns its step."""
    loaded = checkpoints.load_latest(model, optimizer)
    if processes().rank == 0:
        for reason in loaded.skipped.values():
            print(f"skipped and renamed to *.damaged: {reason}", file=sys.stderr)
        checkpoints.set_aside(loaded.skipped)
        print(f"resumed from {loaded.path}", file=sys.stderr)
    return loaded.step_num
