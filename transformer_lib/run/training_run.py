"""A training run: a corpus becomes a translator in a folder, with its checkpoints and its metrics."""

import errno
import hashlib
import itertools
import json
import math
import os
import shlex
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from torch.amp.grad_scaler import GradScaler

from ..config import TrainingConfig, TransformerConfig
from ..data.batches import Batch, Ids, in_background, token_batches, token_counts
from ..data.corpora import load_pairs
from ..data.encoded_pairs import EncodedPairs
from ..data.own_corpus import MOST_HELD_OUT, SHARE, SPLIT_SEED, Corpus, Limits, Pair, Sides, TextPairs
from ..data.tokenizers import train_tokenizer
from ..distributed import broadcast, processes, rank_0_first
from ..evaluation import perplexity
from ..precision import chosen_precision, gradient_scaler
from ..training import DIVERGED, StepRecord, adam, epochs, train
from ..transformer import Transformer, count_parameters
from .checkpoints import RunCheckpoints, write_file
from .metrics import Metrics
from .run_config import RunConfig
from .seals import check_regular
from .translator import DESCRIPTION, Translator, progress_bar, run_checkpoints

LOCK = ".lock"  # a file in the folder of a run, held while the run writes there
LARGE = 20_000_000  # parameters; a processor takes days to train as many
ENCODED, SEAL = "encoded", "seal.json"  # a folder there: the ids of the training pairs; and what it says of them


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


class Run(NamedTuple):
    """The objects of one training run."""

    translator: Translator
    optimizer: torch.optim.Optimizer
    checkpoints: RunCheckpoints
    scaler: GradScaler
    steps_done: int
    train_ids: EncodedPairs
    val_ids: list[tuple[list[int], list[int]]]


def _train(folder: Path, config: RunConfig, device: str, seconds: float, resume: bool) -> None:
    config = config.changed({}, {}, {"precision": chosen_precision(config.training.precision, torch.device(device))})
    first, training = processes().rank == 0, config.training
    patience = config.patience or math.inf
    run = _prepare(folder, config, device, resume)
    model, saved = run.translator.model, run.steps_done
    stop_at = time.monotonic() + seconds
    try:
        with Metrics(folder if first else None, run.steps_done) as metrics, first_interrupt() as interrupted:
            records = train(model, run.optimizer, _batches(run, training), training, run.steps_done, run.scaler)
            # A run may have been killed after it stopped early: then there is nothing left to do.
            records = records if broadcast(metrics.since_best < patience, device) else ()
            for record in (bar := progress_bar(records, training.num_steps, "training", run.steps_done, first)):
                last = record.step_num == training.num_steps or time.monotonic() > stop_at
                line: dict[str, Any] = asdict(record)
                validated = first and (last or record.step_num % config.validate_every == 0)
                if validated:
                    line["val_perplexity"] = _held_out_perplexity(run, training.batch_tokens, record)
                metrics.write(line)  # before the checkpoint, whose steps are then all on record
                if validated:
                    run.checkpoints.save(model, run.optimizer, record.step_num, line["val_perplexity"], run.scaler)
                    saved = record.step_num
                bar.set_postfix(metrics.shown(record.tokens_per_second), refresh=False)
                stopping = interrupted()
                if stopping and first and not validated:  # as it is: validating would take long
                    run.checkpoints.save(model, run.optimizer, record.step_num, None, run.scaler)
                    saved = record.step_num
                if broadcast(last or stopping or metrics.since_best >= patience, device):
                    break
            bar.close()
            if interrupted() and saved < training.num_steps:
                raise KeyboardInterrupt
            if metrics.since_best >= patience:
                best = f"since the best, {min(metrics.perplexities):.4f}"
                print(f"stopped early: {metrics.since_best} validations {best}", file=sys.stderr)
            if first:
                print(_summary(folder, run, metrics, training.num_steps), file=sys.stderr)
    except KeyboardInterrupt:
        where = f"at the checkpoint of step {saved}; --resume goes on" if saved else "before the first checkpoint"
        raise KeyboardInterrupt(where) from None
    except FloatingPointError as error:
        kept = f"the checkpoint of step {saved} is kept" if saved else "no checkpoint was written"
        raise ValueError(f"{error}, in another folder; {kept}") from error
    except RuntimeError as error:
        if not training.compile or not is_of_compiler(error):
            raise
        why = str(error).strip().splitlines()[0]
        needs = "it needs a C++ compiler, and folders without a space in their names"
        raise ValueError(f"compile = True fails: {why}; {needs}, or train without it") from error


def is_of_compiler(error: RuntimeError) -> bool:
    """Whether torch.compile raised it, such as where there is no C++ compiler."""
    from torch._dynamo.exc import TorchDynamoException  # importing it takes a second

    return isinstance(error, TorchDynamoException)


@contextmanager
def first_interrupt() -> Iterator[Callable[[], bool]]:
    """Inside the `with` block the first Ctrl-C only sets what the function given returns; a second one interrupts.

    Nothing changes in a thread other than the main one, which gets no signals, nor where somebody else handles them.
    """
    came, before = threading.Event(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield came.is_set
        return

    def note(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        came.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield came.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _summary(folder: Path, run: Run, metrics: Metrics, num_steps: int) -> str:
    """What a run has reached, and the next command."""
    step = metrics.last.get("step_num", run.steps_done)
    said = f"{folder} has made {step:,} of {num_steps:,} steps"
    if metrics.perplexities:
        with suppress(FileNotFoundError):  # a checkpoint that was taken away
            best = int(run.checkpoints.best().stem.removeprefix("step-"))
            said += f"; the best is step {best:,}, validation perplexity {min(metrics.perplexities):.4f}"
    if run.steps_done == num_steps:
        said += "\nfinished before; for more give a larger num_steps: --resume --training num_steps="
    return f"{said}\nnext: python -m transformer_lib evaluate {shlex.quote(str(folder))}"


def _batches(run: Run, training: TrainingConfig) -> Iterator[Batch]:
    """The batches of the steps to come."""
    done = run.steps_done * training.accumulate
    return in_background(epochs(run.train_ids, run.translator.model.config, training, skip=done))


def _held_out_perplexity(run: Run, batch_tokens: int, record: StepRecord) -> float:
    config = run.translator.model.config
    special = {"pad_id": config.pad_id, "bos_id": config.bos_id, "eos_id": config.eos_id}
    perplexity_now = perplexity(run.translator.model, token_batches(run.val_ids, batch_tokens, **special))
    if not math.isfinite(perplexity_now):
        after = f"step {record.step_num} at rate {record.learning_rate:.3g}"
        raise FloatingPointError(f"{after} leaves validation perplexity {perplexity_now}: {DIVERGED}")
    return perplexity_now


def _prepare(folder: Path, config: RunConfig, device: str, resume: bool) -> Run:
    """Make the translator or load it. The first process alone reads the texts; the others load what it has written."""
    num_steps, checkpoints = config.training.num_steps, run_checkpoints(folder, config.keep_last)
    with rank_0_first():
        pairs = None
        if processes().rank == 0:
            pairs = read_corpus(config)
            checkpoints.clean()
        torch.manual_seed(config.training.seed)
        if pairs is None or resume:
            translator = Translator.untrained(folder, device)
        else:
            translator = Translator.load(config.begun_from) if config.begun_from else new_translator(config, pairs)
        model = translator.model.to(device)
        optimizer = adam(model, config.training)
        scaler = gradient_scaler(config.training.precision, torch.device(device))
        steps_done = _resume(checkpoints, model, optimizer, scaler) if resume else 0
        if steps_done > num_steps:
            raise ValueError(f"num_steps = {num_steps}, but {folder} has {steps_done} behind it; give a larger one")
        val_ids = [] if pairs is None else _write(folder, config, translator, pairs, steps_done)
    return Run(translator, optimizer, checkpoints, scaler, steps_done, EncodedPairs(folder / ENCODED), val_ids)


def _write(folder: Path, config: RunConfig, translator: Translator, pairs: Corpus, steps_done: int) -> list[Any]:
    """Write the run's settings, translator and encoded pairs, and print a summary; returns the ids for validation."""
    model, size = translator.model, config.training.batch_tokens
    if not steps_done:
        translator.describe(folder)
    replace(config, digest=pairs.digest).write(folder)
    said = f"{len(pairs):,} pairs to train on, {len(pairs.held_out):,} for validation{pairs.report()}"
    if isinstance(config.data, list) and not config.validation:
        said += f" (one in {SHARE}, at most {MOST_HELD_OUT:,}, drawn with seed {SPLIT_SEED})"
    if pairs.shared:
        said += f"\n{pairs.shared:,} of the validation pairs are also trained on, and are no test of what was learned"
        said += "; add --clean to leave them out of training"
    if config.begun_from:
        said += lacking(pairs, translator)
    device = next(model.parameters()).device
    parameters = count_parameters(model)
    said += f"\n{parameters} parameters, {device}, {config.training.precision}, {steps_done} steps done"
    if device.type == "cpu" and parameters > LARGE and not steps_done:
        said += "\nwarning: so many take days on a CPU; use a GPU, or --model small in another folder"
    print(said, file=sys.stderr)
    val_ids = translator.encode(pairs.held_out)
    check_token_counts("training", pairs, encode_once(folder, translator, pairs), model.config, size)
    check_token_counts("validation", pairs.held_out, val_ids, model.config, size)
    return val_ids


def lacking(pairs: Iterable[Pair], translator: Translator) -> str:
    """What the texts have that the translator's vocabulary lacks: how many pairs, and the most frequent by name."""
    found, counts = 0, Counter[str]()
    for source, target in pairs:
        unseen = [*translator.source_tokenizer.unseen(source), *translator.target_tokenizer.unseen(target)]
        counts.update(unseen)
        found += bool(unseen)
    if not found:
        return ""
    named = ", ".join(f"{sign!r} ({count})" for sign, count in counts.most_common(10))
    return f"\n{found:,} of these pairs have what the vocabulary lacks, read as <unk>: {named}"


def check_token_counts(
    what: str,
    pairs: Iterable[Pair],
    ids: Sequence[tuple[Ids, Ids]],
    config: TransformerConfig,
    batch_tokens: int,
) -> None:
    """Raise ValueError for a pair too long for a batch or for the model's positions: before any step could be lost."""
    limits = {"batch_tokens": batch_tokens}
    if config.positions == "learned":
        limits["max_positions"] = config.max_positions
    widths = token_counts(ids).max(axis=0) + 1  # <bos> or <eos>
    name, limit = min(limits.items(), key=lambda item: item[1])
    if widths.max() > limit:
        source, _ = next(itertools.islice(pairs, int(widths.argmax()), None))
        which = f"the {what} pair that begins {source[:40]!r} has {widths.max()} tokens on a side"
        remedy = "raise it (--training or --model), or take long pairs out, as --clean --max-length 300 does"
        raise ValueError(f"{which}, more than {name} = {limit}; {remedy}")


def read_corpus(config: RunConfig) -> Corpus:
    """The pairs of a run: of a corpus by name, or of the files of one's own.

    Raises:
        FileNotFoundError: a file of one's own is no longer where it was.
        ValueError: other pairs than those that the run began with, or what Corpus and load_pairs raise.
    """
    limits = Limits(config.max_length, config.max_ratio) if config.clean else None

    def shown(pairs: Iterable[Pair]) -> Iterator[Pair]:
        return iter(progress_bar(pairs, None, "reading"))

    if isinstance(config.data, str):
        splits = (load_pairs(config.data, split, config.source, config.target) for split in ("train", "val"))
        corpus = Corpus(next(splits), next(splits), limits, shown)
    else:
        for file in [*config.data, *(config.validation or [])]:
            if not Path(file).exists():
                raise FileNotFoundError(f"{file} is gone; put it back, or --resume with new --data and --validation")
        held_out = TextPairs(config.validation) if config.validation else None
        files = TextPairs(config.data, config.clean, "delete the pair, or add --clean to leave such pairs out")
        corpus = Corpus(files, held_out, limits, shown)
    if config.digest not in (None, corpus.digest):
        own = " and ".join([*config.data, *(config.validation or [])])
        name = config.data if isinstance(config.data, str) else own
        problem = f"{name} changed since the run began: sha256 {corpus.digest[:12]}, was {config.digest[:12]}"
        raise ValueError(f"{problem}; put the old content back, or train into another folder")
    return corpus


def encode_once(folder: Path, translator: Translator, pairs: Corpus) -> EncodedPairs:
    """The ids of the training pairs, written once; a resumed run takes those that its folder has, if they are whole."""
    written, part = folder / ENCODED, folder / f"{ENCODED}.part"
    text = pairs.digest + (folder / DESCRIPTION).read_text("utf-8")
    of = hashlib.sha256(text.encode()).hexdigest()
    if _seal(written, of) == _read_seal(written):
        return EncodedPairs(written)
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    config = translator.model.config
    sizes = config.vocabulary_size, config.source_vocabulary_size or 0
    encode = (translator.source_tokenizer.encode, translator.target_tokenizer.encode)
    bar = progress_bar(pairs, len(pairs), "encoding")
    try:
        EncodedPairs.write(part, ((encode[0](source), encode[1](target)) for source, target in bar), max(sizes))
        write_file(part / SEAL, json.dumps(_seal(part, of)))
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise OSError(f"{written} not written: {error}; make room, or train into a folder on another disk") from error
    shutil.rmtree(written, ignore_errors=True)
    part.replace(written)
    return EncodedPairs(written)


def _seal(folder: Path, of: str) -> dict[str, str]:
    """The digest of what was encoded, and the sha256 of each array."""
    seal = {"of": of}
    for path in sorted(path for path in folder.glob("*.npy") if path.is_file()):  # a pipe would never end
        with path.open("rb") as file:
            seal[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return seal


def _read_seal(folder: Path) -> object:
    try:
        check_regular(folder / SEAL)
        return json.loads((folder / SEAL).read_text("utf-8"))
    except (OSError, ValueError):
        return None


def new_translator(config: RunConfig, pairs: Corpus) -> Translator:
    """An untrained translator with tokenizers made from the training pairs."""

    def texts(*sides: int) -> Iterable[str]:
        return Sides(progress_bar(pairs, len(pairs), "learning the vocabulary"), *sides)

    sizes: dict[str, int] = {}
    try:
        if config.tokenizer == "spacy":  # words of two languages: two vocabularies
            languages = (config.source, config.target)
            tokenizers = [train_tokenizer("spacy", texts(side), code, 0) for side, code in enumerate(languages)]
            sizes["source_vocabulary_size"] = len(tokenizers[0])
        else:
            tokenizers = [train_tokenizer(config.tokenizer, texts(0, 1), None, config.vocabulary_size)] * 2
    except ValueError as error:
        if isinstance(config.data, str):
            raise
        raise ValueError(f"{' and '.join(config.data)}: {error}") from error
    model = Transformer(config.model_config(len(tokenizers[1]), **sizes))
    return Translator(model, tokenizers[0], tokenizers[1], config.source, config.target)


def restarted() -> bool:
    """Whether torchrun started this process again, with the same command line, after one of its processes died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def _resume(
    checkpoints: RunCheckpoints, model: Transformer, optimizer: torch.optim.Optimizer, scaler: GradScaler
) -> int:
    """Load the newest intact checkpoint and put those aside that are newer and damaged; returns its step."""
    loaded = checkpoints.load_latest(model, optimizer, scaler)
    if processes().rank == 0:  # before the others load
        for reason in loaded.skipped.values():
            print(f"skipped and renamed to *.damaged: {reason}", file=sys.stderr)
        checkpoints.set_aside(loaded.skipped)
        print(f"resumed from {loaded.path}", file=sys.stderr)
    return loaded.step_num
