"""Checkpoints to continue from, the few that a run keeps, its one writer, and files that appear whole or not at all.

A checkpoint is one .safetensors file. Reading it runs no code.

    embedding.weight, ...     the weights
    optimizer.0.exp_avg, ...  the optimizer's, by the parameter's number
    header                    JSON: config, step, versions, one digest of it all

The header of a run's checkpoint also holds the tokenizers and the direction: each is a translator.
No random generator is saved: `train` seeds each update by the seed, the step and the rank.
"""

import math
import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from transformer_lib.config import check_positive
from transformer_lib.transformer import Transformer
from transformer_lib.weight_files import Content, damaged, differing, header, is_safetensors, read_file

PART = ".transformer_lib.part"  # the end of a name that nobody else gives to a folder: one left by a kill is deleted
LOCK = ".lock"  # a file in the folder of a run, held while the run writes there
CHECKPOINTS = "checkpoints"  # a folder in that of a run
# Which weights of a run are used: those of the lowest validation perplexity, the newest, or the mean of the newest few.
WhichWeights = Literal["best", "latest", "average"]


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file or folder to write, in a folder of its own beside the path; then it is flushed and renamed to the path.

    Raises:
        OSError: a full disk, a folder that cannot be written; what was there before is untouched.
    """
    part = path.with_name(path.name + PART)  # a folder: a killed save_file leaves a temporary file in it
    written = part / path.name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        yield written
        if not written.is_dir():  # a folder takes the place of none that is filled
            written.chmod(part.stat().st_mode & 0o666)  # save_file makes files for their owner alone
        _flush(written)
        written.replace(path)
        _flush(path.parent)
    except (OSError, SafetensorError) as error:
        remedy = "make room or name another folder; what was saved before is untouched"
        raise OSError(f"{path} is not written: {error}; {remedy}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


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


def write_file(path: Path, content: str) -> None:
    """Write a text file whole or not at all. Raises OSError; then what was there before is untouched."""
    with whole(path) as part:
        part.write_text(content, encoding="utf-8", newline="\n")


def _flush(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders and keeps their names safe itself
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_tensors(path: Path, described: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a .safetensors file with what is said of the tensors in its header. Raises OSError as `whole` does."""
    with whole(path) as part:
        save_file(tensors, part, header(described, tensors))


def save_checkpoint(
    path: Path | str,
    model: Transformer,
    optimizer: Optimizer,
    step_num: int,
    val_perplexity: float | None = None,
    scaler: GradScaler | None = None,
    translator: Mapping[str, Any] | None = None,
) -> None:
    """Everything that a run needs to go on as if it had never stopped, in one file, which appears whole or not at all.

    Args:
        step_num: updates made so far.
        val_perplexity: of these weights on held-out pairs; RunCheckpoints keeps the best. Infinity counts as none.
        scaler: of the loss in fp16.
        translator: what Translator.described says; with it the checkpoint is a translator, too.

    Raises:
        OSError: a full disk, a folder that cannot be written; what was saved before is untouched.
        ValueError: the path is something other than a checkpoint, or the optimizer is of another model or keeps more
            than tensors.
    """
    path = Path(path)
    if path.exists() and not is_safetensors(path):
        raise ValueError(f"{path} exists and is no checkpoint; it is not overwritten: name another path")
    if not {p for group in optimizer.param_groups for p in group["params"]} <= set(model.parameters()):
        raise ValueError("the optimizer has parameters that are not the model's; make it from model.parameters()")
    state = optimizer.state_dict()
    tensors: dict[str, Any] = {
        **model.state_dict(),
        **{f"optimizer.{i}.{key}": value for i, kept in state["state"].items() for key, value in kept.items()},
    }
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"{name} = {value!r} is no tensor; use an optimizer such as Adam")
        tensors[name] = value.detach().cpu().contiguous()
    described = {
        "step_num": step_num,
        "val_perplexity": val_perplexity if math.isfinite(val_perplexity or 0) else None,
        "config": asdict(model.config),
        "optimizer": {"kind": type(optimizer).__name__, "param_groups": state["param_groups"]},
        "scaler": scaler.state_dict() if scaler else {},
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
    }
    save_tensors(path, {**described, **(translator or {})}, tensors)


def load_checkpoint(
    path: Path | str, model: Transformer, optimizer: Optimizer | None = None, scaler: GradScaler | None = None
) -> int:
    """Put a checkpoint's weights into the model, and its other state into the optimizer if there is one.

    Everything is checked before anything is changed. No random generator is changed.

    Args:
        scaler: gets the saved scale, if the checkpoint has one.

    Returns:
        the number of updates that the checkpoint has behind it.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a truncated, altered or foreign checkpoint, or one of another config or optimizer; the model and
            the optimizer stay as they were.
    """
    path = Path(path)
    found = read_file(path)
    try:
        step_num, saved, own = found.described["step_num"], found.described["config"], asdict(model.config)
        if names := [name for name in own if saved.get(name) != own[name]]:
            values = "; ".join(f"{name} is {saved.get(name)!r} there, {own[name]!r} here" for name in names)
            raise ValueError(f"{path} is a checkpoint from another config: {values}; build the model with its config")
    except (KeyError, AttributeError) as error:
        raise damaged(path, error) from error
    if names := differing(found.weights, model.state_dict()):
        raise ValueError(f"{path} does not hold the weights of this model: {names} differ")
    if optimizer is not None:
        _restore(path, found, optimizer)
    if scaler is not None and found.described.get("scaler"):
        scaler.load_state_dict(found.described["scaler"])
    model.load_state_dict(found.weights)
    return step_num


def _restore(path: Path, found: Content, optimizer: Optimizer) -> None:
    """Put the optimizer into the state that was saved."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in found.training.items():
        _, number, key = name.split(".")
        state.setdefault(int(number), {})[key] = tensor.clone()  # otherwise the file would stay open
    try:
        saved, here = found.described["optimizer"], type(optimizer).__name__
        if saved["kind"] != here:
            raise ValueError(f"{saved['kind']} there, {here} here")
        optimizer.load_state_dict({"state": state, "param_groups": saved["param_groups"]})
    except ValueError as error:
        raise ValueError(f"{path} is of another optimizer: {error}") from error
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise damaged(path, error) from error


@dataclass(frozen=True)
class RunCheckpoints:
    """The checkpoints of one run: a folder with `step-000160.safetensors` and the like in it.

    Args:
        keep_last: number of the newest that are kept, besides the one with the lowest val_perplexity.
    """

    folder: Path
    keep_last: int = 5

    def __post_init__(self):
        check_positive(keep_last=self.keep_last)

    def path(self, step_num: int) -> Path:
        """Of the checkpoint after so many steps."""
        return self.folder / f"step-{step_num:06}.safetensors"

    def paths(self) -> list[Path]:
        """All, the oldest first."""
        paths = self.folder.glob("step-*") if self.folder.is_dir() else ()
        named = (path for path in paths if re.fullmatch(r"step-\d+\.safetensors", path.name) and path.is_file())
        return sorted(named, key=step_of)

    def last(self) -> list[Path]:
        """The newest keep_last, the oldest first. Raises FileNotFoundError if there are none."""
        if not self.paths():
            raise FileNotFoundError(f"no checkpoint in {self.folder}; train first")
        return self.paths()[-self.keep_last :]

    def best(self) -> Path | None:
        """The intact one with the lowest val_perplexity, the oldest of several; None if none has one."""
        scores: dict[Path, float] = {}
        for path in self.paths():
            with suppress(ValueError, OSError):  # a damaged one has none
                if (score := read_file(path, verified=False).described.get("val_perplexity")) is not None:
                    scores[path] = score
        for path in sorted(scores, key=scores.__getitem__):
            with suppress(ValueError, OSError):  # nor has one whose score was altered
                read_file(path)
                return path
        return None

    def chosen(self, which: WhichWeights | None = None) -> tuple[list[Path], str]:
        """The checkpoint whose weights are wanted, or those whose mean is; and what they are called.

        Args:
            which: None: the best, or the latest of a run that was never validated.

        Raises:
            FileNotFoundError: there are no checkpoints, or no best one.
        """
        last = self.last()
        if which == "average":
            return last, f"average of the last {len(last)} checkpoints"
        best = None if which == "latest" else self.best()
        if which == "best" and best is None:
            raise FileNotFoundError(f"no checkpoint in {self.folder} was validated; use the latest")
        path = best or last[-1]
        return [path], f"{'best' if best else 'latest'} checkpoint, step {step_of(path)}"

    def newest_intact(self) -> tuple[Path, list[str]]:
        """The newest checkpoint that is intact, and what there is to say; newer ones are renamed to `*.damaged`.

        Raises:
            FileNotFoundError: there are no checkpoints.
            ValueError: none of them can be read; then none is renamed.
        """
        self.last()  # there must be one
        skipped: dict[Path, str] = {}
        for path in reversed(self.paths()):
            try:
                read_file(path)
            except (ValueError, OSError) as error:
                skipped[path] = str(error)
                continue
            for newer in skipped:
                newer.replace(newer.with_name(newer.name + ".damaged"))
            damaged = [f"skipped and renamed to *.damaged: {reason}" for reason in skipped.values()]
            return path, [*damaged, f"resumed from {path}"]
        raise ValueError(f"no checkpoint in {self.folder} can be read: {'; '.join(skipped.values())}")

    def remove_old(self) -> None:
        """Remove those that need not be kept."""
        for old in {*self.paths()} - {*self.last(), self.best()}:
            old.unlink()

    def clean(self) -> None:
        """Remove what a killed run left half written. No other run may be writing here."""
        for left in self.folder.glob(f"step-*{PART}"):
            shutil.rmtree(left, ignore_errors=True)


def step_of(path: Path) -> int:
    """The steps that a checkpoint of this name has behind it."""
    return int(path.stem.removeprefix("step-"))
