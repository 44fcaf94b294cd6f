"""Checkpoints to continue from, the few that a run keeps, and the average of several.

A checkpoint is one .safetensors file, so that one rename makes it appear whole. Reading it runs no code.

    embedding.weight, ...      the weights
    optimizer.0.exp_avg, ...   the optimizer's tensors, by the parameter's number
    "checkpoint" (header)      JSON: step, config, other settings, versions, digests

No random generator is saved: `train` seeds each update by the seed, the step and the rank.
"""

import hashlib
import math
import platform
import re
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from transformer_lib.config import check_positive
from transformer_lib.transformer import Transformer
from transformer_lib.weight_files import (
    FORMAT,
    Content,
    average_checkpoints,
    damaged,
    differing,
    digest,
    is_safetensors,
    read_checkpoint,
    sealed,
)

from .whole_files import PART, whole

CHECKPOINTS = "checkpoints"  # a folder in that of a run
# Which weights of a run are used: those of the lowest validation perplexity, the newest, or the mean of the newest few.
WhichWeights = Literal["best", "latest", "average"]


def save_checkpoint(
    path: Path | str,
    model: Transformer,
    optimizer: Optimizer,
    step_num: int,
    val_perplexity: float | None = None,
    translator: str | None = None,
    scaler: GradScaler | None = None,
) -> None:
    """Everything that a run needs to go on as if it had never stopped, in one file, which appears whole or not at all.

    Args:
        step_num: updates made so far.
        val_perplexity: of these weights on held-out pairs; RunCheckpoints keeps the best. Infinity counts as none.
        translator: digest of the translator.json that the weights belong to.
        scaler: of the loss in fp16.

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
    content = {
        "format": FORMAT,
        "step_num": step_num,
        "val_perplexity": val_perplexity if math.isfinite(val_perplexity or 0) else None,
        "config": asdict(model.config),
        "optimizer": {"kind": type(optimizer).__name__, "param_groups": state["param_groups"]},
        "translator": translator,
        "scaler": scaler.state_dict() if scaler else {},
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "tensors": digest(tensors),
    }
    with whole(path) as part:
        save_file(tensors, part, {"checkpoint": sealed(content), "library": "transformer_lib"})


def load_checkpoint(
    path: Path | str,
    model: Transformer,
    optimizer: Optimizer | None = None,
    translator: str | None = None,
    scaler: GradScaler | None = None,
) -> int:
    """Put a checkpoint's weights into the model, and its other state into the optimizer if there is one.

    Everything is checked before anything is changed. No random generator is changed.

    Args:
        translator: digest that the checkpoint must have been saved with; None: any.
        scaler: gets the saved scale, if the checkpoint has one.

    Returns:
        the number of updates that the checkpoint has behind it.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a truncated, altered or foreign checkpoint, or one of another config, optimizer or translator; the
            model and the optimizer stay as they were.
    """
    path = Path(path)
    found = read_checkpoint(path)
    _check_fit(path, found, model, translator)
    if optimizer is not None:
        _restore(path, found, optimizer)
    if scaler is not None and found.described.get("scaler"):
        scaler.load_state_dict(found.described["scaler"])
    model.load_state_dict(found.weights)
    return found.described["step_num"]


@dataclass(frozen=True)
class RunCheckpoints:
    """The checkpoints of one run: a folder with `step-000160.safetensors` and the like in it.

    Args:
        keep_last: number of the newest that are kept, besides the one with the lowest val_perplexity.
        translator: the run's translator.json; a checkpoint carries its digest and is loaded beside no other.
    """

    folder: Path
    keep_last: int = 5
    translator: Path | None = None

    def __post_init__(self):
        check_positive(keep_last=self.keep_last)

    def paths(self) -> list[Path]:
        """All, the oldest first."""
        paths = self.folder.glob("step-*") if self.folder.is_dir() else ()
        named = (path for path in paths if re.fullmatch(r"step-\d+\.safetensors", path.name) and path.is_file())
        return sorted(named, key=lambda path: int(path.stem.removeprefix("step-")))

    def last(self) -> list[Path]:
        """The newest keep_last, the oldest first. Raises FileNotFoundError if there are none."""
        if not self.paths():
            raise FileNotFoundError(f"no checkpoint in {self.folder}; train first")
        return self.paths()[-self.keep_last :]

    def best(self) -> Path | None:
        """The one with the lowest val_perplexity, the oldest of several; None if none has one."""
        scores: dict[Path, float] = {}
        for path in self.paths():
            with suppress(ValueError, OSError):  # a damaged one has none
                if (score := read_checkpoint(path, verified=False).described["val_perplexity"]) is not None:
                    scores[path] = score
        return min(scores, key=scores.__getitem__, default=None)

    def save(
        self,
        model: Transformer,
        optimizer: Optimizer,
        step_num: int,
        val_perplexity: float | None = None,
        scaler: GradScaler | None = None,
    ) -> Path:
        """Write a checkpoint, then remove those that need not be kept. Raises as save_checkpoint does."""
        path = self.folder / f"step-{step_num:06}.safetensors"
        save_checkpoint(path, model, optimizer, step_num, val_perplexity, self._translator_digest(), scaler)
        for old in {*self.paths()} - {*self.last(), self.best()}:
            old.unlink()
        return path

    def load(self, model: Transformer, which: WhichWeights | None = None) -> str:
        """Load the weights of the best checkpoint, the latest or the mean of the newest keep_last.

        Args:
            which: None: the best, or the latest of a run that was never validated.

        Returns:
            what was loaded, such as "best checkpoint, step 160".

        Raises:
            FileNotFoundError: there are no checkpoints, or no best one.
            ValueError: as load_checkpoint and average_checkpoints do.
        """
        last, translator = self.last(), self._translator_digest()
        if which == "average":
            for path in last:  # the mean compares the numbers with their digest
                _check_fit(path, read_checkpoint(path, verified=False), model, translator)
            model.load_state_dict(average_checkpoints(last))
            return f"average of the last {len(last)} checkpoints"
        best = None if which == "latest" else self.best()
        if which == "best" and best is None:
            raise FileNotFoundError(f"no checkpoint in {self.folder} was validated; use the latest")
        step_num = load_checkpoint(best or last[-1], model, translator=translator)
        return f"{'best' if best else 'latest'} checkpoint, step {step_num}"

    def resume(
        self, model: Transformer, optimizer: Optimizer, scaler: GradScaler | None = None
    ) -> tuple[int, list[str]]:
        """Load the newest checkpoint that is intact, and rename the newer ones to `*.damaged`.

        Returns:
            its step, and what there is to say of it and of the others.

        Raises:
            FileNotFoundError: there are no checkpoints.
            ValueError: none of them can be loaded; then none is renamed.
        """
        self.last()  # there must be one
        skipped: dict[Path, str] = {}
        for path in reversed(self.paths()):
            try:
                step_num = load_checkpoint(path, model, optimizer, self._translator_digest(), scaler)
            except (ValueError, OSError) as error:
                skipped[path] = str(error)
                continue
            for newer in skipped:
                newer.replace(newer.with_name(newer.name + ".damaged"))
            damaged = [f"skipped and renamed to *.damaged: {reason}" for reason in skipped.values()]
            return step_num, [*damaged, f"resumed from {path}"]
        raise ValueError(f"no checkpoint in {self.folder} can be loaded: {'; '.join(skipped.values())}")

    def clean(self) -> None:
        """Remove what a killed run left half written. No other run may be writing here."""
        for left in self.folder.glob(f"step-*{PART}"):
            shutil.rmtree(left, ignore_errors=True)

    def _translator_digest(self) -> str | None:
        return self.translator and hashlib.sha256(self.translator.read_bytes()).hexdigest()


def _check_fit(path: Path, found: Content, model: Transformer, translator: str | None) -> None:
    """Raise ValueError for a checkpoint of another translator, config or model."""
    try:
        if translator not in (None, found.described["translator"]):
            raise ValueError(f"{path} was not saved with the translator.json beside it; put back the one of its run")
        saved, own = found.described["config"], asdict(model.config)
        if names := [name for name in own if saved.get(name) != own[name]]:
            values = "; ".join(f"{name} is {saved.get(name)!r} there, {own[name]!r} here" for name in names)
            raise ValueError(f"{path} is a checkpoint from another config: {values}; build the model with its config")
        if names := differing(found.weights, model.state_dict()):
            raise ValueError(f"{path} does not hold the weights of this model: {names} differ")
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(path, error) from error


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
