"""Checkpoints to continue from, the few that a run keeps, and the average of several.

A checkpoint is a folder. Nothing in it is a pickle, and reading it runs no code:

    step-000160/
        model.safetensors       the weights; of use alone
        training.safetensors    the optimizer's tensors and the states of the random generators
        checkpoint.json         the step, the config, all other settings, versions, and the sha256 of the two files
"""

import hashlib
import json
import math
import os
import platform
import random
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..config import TransformerConfig, check_positive, config_from_dict
from ..transformer import Transformer

FORMAT = 1  # of the folder; a change that older readers cannot follow raises it
MODEL, TRAINING, DESCRIPTION = "model.safetensors", "training.safetensors", "checkpoint.json"
KEYS = {"format", "step_num", "val_perplexity", "config", "optimizer", "random", "versions", "sha256"}
REMEDY = "make room or name another folder; what was saved before is untouched"
SPAN = 2**22  # numbers that average_checkpoints adds up at a time


def save_checkpoint(
    path: Path | str,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    step_num: int,
    val_perplexity: float | None = None,
) -> None:
    """Everything that a run needs to go on as if it had never stopped, in one folder.

    The folder appears whole or not at all: it is written under another name, flushed to the disk and renamed. A
    checkpoint that was there before stays until the new one is complete.

    Args:
        step_num: updates made so far.
        val_perplexity: of these weights on held-out pairs; RunCheckpoints keeps the best. Infinity counts as none.

    Raises:
        OSError: a full disk, a folder that cannot be written; what was saved before is untouched.
        ValueError: the path is something other than a checkpoint, or the optimizer's state is not of tensors.
    """
    path = Path(path)
    if path.exists() and not (path / DESCRIPTION).exists():
        raise ValueError(f"{path} exists and is no checkpoint; it is not overwritten: name another path")
    optimizer_tensors, optimizer_settings = _optimizer_state(model, optimizer)
    random_tensors, random_settings = _random_states()
    content = {
        "format": FORMAT,
        "step_num": step_num,
        "val_perplexity": val_perplexity if math.isfinite(val_perplexity or 0) else None,
        "config": asdict(model.config),
        "optimizer": optimizer_settings,
        "random": random_settings,
        "versions": _versions(),
    }
    part = _beside(path, ".part")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        _clear(path)
        part.mkdir()
        _save_tensors(part / MODEL, model.state_dict())
        _save_tensors(part / TRAINING, optimizer_tensors | random_tensors)
        content["sha256"] = {name: _sha256(part / name) for name in (MODEL, TRAINING)}
        (part / DESCRIPTION).write_bytes(_sealed(content))
        for name in (MODEL, TRAINING, DESCRIPTION):
            shutil.copymode(part / DESCRIPTION, part / name)  # safetensors makes files for their owner alone
            _flush(part / name)
        _flush(part)
        if path.exists():
            path.rename(_beside(path, ".old"))
        part.rename(path)
        _flush(path.parent)
        _clear(path)
    except (OSError, SafetensorError) as error:
        raise OSError(f"{path} not written: {error}; {REMEDY}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def load_checkpoint(path: Path | str, model: Transformer, optimizer: torch.optim.Optimizer | None = None) -> int:
    """Put a checkpoint's weights into the model; with an optimizer, its state and the random states too.

    Those are the states of torch on the CPU and, if there are as many, on each GPU; of Python's `random`; and of
    numpy's global generator. Everything is checked before anything is changed.

    Returns:
        the number of updates that the checkpoint has behind it.

    Raises:
        FileNotFoundError: no such folder.
        ValueError: a truncated, altered or foreign checkpoint, or one of another config or optimizer; the model, the
            optimizer and the random states stay as they were.
    """
    path = _present(path)
    content = read_checkpoint(path)
    try:
        weights = load_file(path / MODEL)
        _check_model(path, content, weights, model)
        training = None if optimizer is None else _training_state(path, content, model, optimizer)
    except (KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        raise _damaged(path, repr(error)) from error
    model.load_state_dict(weights)
    if optimizer is not None and training is not None:
        optimizer.load_state_dict(training.optimizer)
        torch.set_rng_state(training.torch_state)
        random.setstate(training.python_state)
        np.random.set_state(training.numpy_state)
        if len(training.cuda_states) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(training.cuda_states)
    return content["step_num"]


def read_checkpoint(path: Path | str) -> dict[str, Any]:
    """The content of checkpoint.json, after comparing all three files with the digests in it.

    Raises:
        FileNotFoundError: no such folder.
        ValueError: a truncated, altered or foreign checkpoint.
    """
    path = _present(path)
    content = _description(path)
    try:
        recorded = {name: content["sha256"][name] for name in (MODEL, TRAINING)}
    except (KeyError, TypeError) as error:
        raise _damaged(path, repr(error)) from error
    for name, digest in recorded.items():
        if not (path / name).is_file():
            raise _damaged(path, f"{name} is missing")
        if _sha256(path / name) != digest:
            raise _damaged(path, f"the content of {name} is not what {DESCRIPTION} says")
    return content


class Loaded(NamedTuple):
    """The checkpoint that was loaded, and which newer ones were passed over."""

    path: Path
    step_num: int
    skipped: dict[Path, str]  # and why


@dataclass(frozen=True)
class RunCheckpoints:
    """The checkpoints of one run: a folder with `step-000160` and the like in it.

    Args:
        keep_last: so many of the newest are kept, and besides them the one of the lowest val_perplexity.
    """

    folder: Path
    keep_last: int = 5

    def __post_init__(self):
        check_positive(keep_last=self.keep_last)

    def paths(self) -> list[Path]:
        """All, the oldest first."""
        found = self.folder.glob("step-*") if self.folder.is_dir() else ()
        return sorted((path for path in found if re.fullmatch(r"step-\d+", path.name)), key=_step_in_name)

    def last(self) -> list[Path]:
        """The newest keep_last, the oldest first. Raises FileNotFoundError if there are none."""
        if not self.paths():
            raise FileNotFoundError(f"no checkpoint in {self.folder}; train first")
        return self.paths()[-self.keep_last :]

    def latest(self) -> Path:
        """The newest. Raises FileNotFoundError if there are none."""
        return self.last()[-1]

    def best(self) -> Path:
        """The one with the lowest val_perplexity, the oldest of several. Raises FileNotFoundError if none has one."""
        scores = {path: score for path in self.paths() if (score := _val_perplexity(path)) is not None}
        if not scores:
            raise FileNotFoundError(f"no checkpoint in {self.folder} was validated; use the latest")
        return min(scores, key=scores.__getitem__)

    def save(
        self,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        step_num: int,
        val_perplexity: float | None = None,
    ) -> Path:
        """Write a checkpoint, then remove those that need not be kept. Raises as save_checkpoint does."""
        path = self.folder / f"step-{step_num:06}"
        save_checkpoint(path, model, optimizer, step_num, val_perplexity)
        kept = set(self.last())
        if any(_val_perplexity(old) is not None for old in self.paths()):
            kept.add(self.best())
        for old in self.paths():
            if old not in kept:
                # Renamed first: a kill in the middle of the removal must leave no half of a checkpoint.
                shutil.rmtree(old.rename(_beside(old, ".deleted")))
        return path

    def load_latest(self, model: Transformer, optimizer: torch.optim.Optimizer | None = None) -> Loaded:
        """Load the newest checkpoint that is intact.

        Raises:
            FileNotFoundError: there are no checkpoints.
            ValueError: none of them can be loaded.
        """
        skipped: dict[Path, str] = {}
        self.last()  # there must be one
        for path in reversed(self.paths()):
            try:
                return Loaded(path, load_checkpoint(path, model, optimizer), skipped)
            except (ValueError, OSError) as error:
                skipped[path] = str(error)
        raise ValueError(f"no checkpoint in {self.folder} can be loaded: {'; '.join(skipped.values())}")

    def set_aside(self, paths: Iterable[Path]) -> None:
        """Rename checkpoints that cannot be loaded, so that they count no longer."""
        for path in paths:
            aside = _beside(path, ".damaged")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)

    def clean(self) -> None:
        """Remove what a killed run left half written or half removed. No other run may be writing here."""
        for left in self.folder.glob("step-*.*") if self.folder.is_dir() else ():
            if left.suffix in (".part", ".old"):
                _clear(left.with_suffix(""))
            elif left.suffix == ".deleted":
                shutil.rmtree(left)


def average_checkpoints(paths: Iterable[Path | str]) -> dict[str, torch.Tensor]:
    """The mean of the weights of several checkpoints, a state dict on the CPU.

    The sums are in double precision. The files are read piece by piece: however
    many there are, memory holds the mean and a piece of SPAN numbers, no more.

    Source: section 6.1, the last 5 checkpoints of base, 20 of big [ckpt-avg].

    Args:
        paths: of checkpoints, of .safetensors files, or of state dicts saved
            with torch.save.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no paths, a damaged file, or weights of different names or
            shapes.
    """
    sources = [_weights_file(Path(path)) for path in paths]
    if not sources:
        raise ValueError("no paths: an average needs at least one checkpoint")
    shapes = _shapes(sources[0])
    for path in sources[1:]:
        if _shapes(path) != shapes:
            why = "are of different models and have no common mean"
            raise ValueError(f"{path} and {sources[0]} {why}")

    def blank(weight: torch.Tensor) -> torch.Tensor:
        return torch.empty(weight.shape, dtype=weight.dtype)

    mean = {name: blank(w) for name, w in _weights(sources[0]).items()}
    for spans in _spans(mean):
        sizes = [stop - start for _, start, stop in spans]
        totals = [torch.zeros(size, dtype=torch.float64) for size in sizes]
        for path in sources:
            # Opened anew for each piece: what a map has read stays in memory
            # until it closes.
            weights = _weights(path)
            for total, (name, start, stop) in zip(totals, spans, strict=True):
                total.add_(weights[name].reshape(-1)[start:stop])
            del weights
        for total, (name, start, stop) in zip(totals, spans, strict=True):
            mean[name].view(-1)[start:stop] = total / len(sources)
    return mean


def write_file(path: Path, content: str) -> None:
    """Write a text file whole or not at all: under another name, flushed to the disk and renamed.

    Raises:
        OSError: a full disk, a folder that cannot be written; what was there before is untouched.
    """
    part = _beside(path, ".part")
    try:
        part.write_text(content, encoding="utf-8")
        _flush(part)
        part.replace(path)
        _flush(path.parent)
    except OSError as error:
        raise OSError(f"{path} not written: {error}; {REMEDY}") from error


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _clear(path: Path) -> None:
    """Remove what earlier writes of this checkpoint left; between two renames, its old form is the good one."""
    shutil.rmtree(_beside(path, ".part"), ignore_errors=True)
    old = _beside(path, ".old")
    if old.exists() and path.exists():
        shutil.rmtree(old)
    elif old.exists():
        old.rename(path)


def _present(path: Path | str) -> Path:
    path = Path(path)
    if not path.exists() and _beside(path, ".old").exists():
        return _beside(path, ".old")  # killed between two renames; see _clear
    if not path.exists():
        raise FileNotFoundError(f"no checkpoint at {path}")
    return path


def _damaged(path: Path, what: str) -> ValueError:
    return ValueError(f"{path} is truncated, altered or no checkpoint of this library: {what}; use another checkpoint")


def _flush(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders and keeps their names safe itself
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sealed(content: dict[str, Any]) -> bytes:
    """The content as JSON, with a digest of itself; the same content gives the same bytes."""
    text = json.dumps(content, indent=1)
    return json.dumps(content | {"digest": hashlib.sha256(text.encode()).hexdigest()}, indent=1).encode()


def _description(path: Path) -> dict[str, Any]:
    """The content of checkpoint.json, compared with its digest."""
    if not (path / DESCRIPTION).is_file():
        raise _damaged(path, f"{DESCRIPTION} is missing")
    written = (path / DESCRIPTION).read_bytes()
    try:
        content = json.loads(written)
    except ValueError as error:
        raise _damaged(path, f"{DESCRIPTION}: {error}") from error
    if not isinstance(content, dict):
        raise _damaged(path, f"{DESCRIPTION} should hold an object, not {content!r:.40}")
    if isinstance(content.get("format"), int) and content["format"] > FORMAT:
        raise ValueError(f"{path} has format {content['format']}, this library reads {FORMAT}; update the library")
    if missing := KEYS - content.keys():
        raise _damaged(path, f"{DESCRIPTION} lacks {', '.join(sorted(missing))}")
    content.pop("digest", None)
    if _sealed(content) != written:
        raise _damaged(path, f"the content of {DESCRIPTION} is not what its digest says")
    return content


def _save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)


def _check_model(path: Path, content: dict[str, Any], weights: dict[str, torch.Tensor], model: Transformer) -> None:
    try:
        saved = config_from_dict(TransformerConfig, content["config"])
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} holds no config of this library: {error}") from error
    if saved != model.config:
        names = [f.name for f in fields(saved) if getattr(saved, f.name) != getattr(model.config, f.name)]
        differing = "; ".join(f"{n} is {getattr(saved, n)!r} there, {getattr(model.config, n)!r} here" for n in names)
        raise ValueError(f"{path} is a checkpoint from another config: {differing}; build the model with its config")
    own = model.state_dict()
    if odd := sorted(weights.keys() ^ own.keys()):
        raise ValueError(f"{path} does not hold the weights of this model; too many or missing: {', '.join(odd[:3])}")
    for name, weight in weights.items():
        if weight.shape != own[name].shape:
            shapes = f"{name} is {tuple(weight.shape)} there, {tuple(own[name].shape)} here"
            raise ValueError(f"{path} does not hold the weights of this model: {shapes}")


def _parameter_names(model: Transformer, optimizer: torch.optim.Optimizer) -> list[str]:
    """The model's names of the optimizer's parameters, in the optimizer's order."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if not all(parameter in names for parameter in parameters):
        raise ValueError("the optimizer has parameters that are not the model's; make it from model.parameters()")
    return [names[parameter] for parameter in parameters]


def _named_groups(names: list[str], optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    groups = optimizer.state_dict()["param_groups"]
    return [group | {"params": [names[i] for i in group["params"]]} for group in groups]


def _optimizer_state(
    model: Transformer, optimizer: torch.optim.Optimizer
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The optimizer's tensors under names such as optimizer.embedding.weight.exp_avg, and its settings."""
    names = _parameter_names(model, optimizer)
    tensors: dict[str, torch.Tensor] = {}
    for i, values in optimizer.state_dict()["state"].items():
        for key, value in values.items():
            if not isinstance(value, torch.Tensor):
                raise ValueError(f"{key} = {value!r} of the optimizer is no tensor; use an optimizer such as Adam")
            tensors[f"optimizer.{names[i]}.{key}"] = value
    return tensors, {"kind": type(optimizer).__name__, "param_groups": _named_groups(names, optimizer)}


class _TrainingState(NamedTuple):
    """All but the weights, in the forms that the optimizer and the generators take."""

    optimizer: dict[str, Any]
    torch_state: torch.Tensor
    cuda_states: list[torch.Tensor]
    python_state: Any
    numpy_state: Any


def _training_state(
    path: Path, content: dict[str, Any], model: Transformer, optimizer: torch.optim.Optimizer
) -> _TrainingState:
    tensors, settings = load_file(path / TRAINING), content["random"]
    optimizer_state = _optimizer_state_dict(path, content["optimizer"], tensors, model, optimizer)
    python_version, python_gauss = settings["python"]
    python_state = (python_version, tuple(tensors["random.python"].tolist()), python_gauss)
    numpy_kind, *numpy_rest = settings["numpy"]
    numpy_state = (numpy_kind, tensors["random.numpy"].numpy().astype(np.uint32), *numpy_rest)
    # Tried on generators of no consequence: a state that is refused must be refused before anything is changed.
    random.Random().setstate(python_state)
    np.random.RandomState().set_state(numpy_state)
    torch.Generator().set_state(tensors["random.torch"])
    cuda_states = [tensors[f"random.cuda.{i}"] for i in range(settings["cuda_devices"])]
    return _TrainingState(optimizer_state, tensors["random.torch"], cuda_states, python_state, numpy_state)


def _optimizer_state_dict(
    path: Path,
    saved: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    model: Transformer,
    optimizer: torch.optim.Optimizer,
) -> dict[str, Any]:
    """The saved state in the form that optimizer.load_state_dict takes."""
    names = _parameter_names(model, optimizer)
    there = [saved["kind"], *(group["params"] for group in saved["param_groups"])]
    here = [type(optimizer).__name__, *(group["params"] for group in _named_groups(names, optimizer))]
    if there != here:
        described = [f"{kind} with {len(groups)} groups of {sum(map(len, groups))}" for kind, *groups in (there, here)]
        raise ValueError(f"{path} is of another optimizer: {described[0]} parameters there, {described[1]} here")
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    state: dict[int, dict[str, torch.Tensor]] = {}
    for full_name, tensor in tensors.items():
        if full_name.startswith("optimizer."):
            name, _, key = full_name.removeprefix("optimizer.").rpartition(".")
            if tensor.dim() and tensor.shape != shapes[name]:
                raise _damaged(path, f"{full_name} is {tuple(tensor.shape)}, its parameter {tuple(shapes[name])}")
            state.setdefault(names.index(name), {})[key] = tensor.clone()  # the file's map would stay open
    numbers = iter(range(len(names)))
    groups = [
        {key: tuple(value) if isinstance(value, list) else value for key, value in group.items()}
        | {"params": [next(numbers) for _ in group["params"]]}
        for group in saved["param_groups"]
    ]
    return {"state": state, "param_groups": groups}


def _random_states() -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The states of every generator: their many numbers as tensors, the few others for the JSON."""
    python_version, python_words, python_gauss = random.getstate()
    numpy_kind, numpy_words, *numpy_rest = np.random.get_state()
    cuda = torch.cuda.get_rng_state_all()  # an empty list without a GPU
    tensors = {
        "random.torch": torch.get_rng_state(),
        "random.python": torch.tensor(python_words),
        "random.numpy": torch.from_numpy(np.asarray(numpy_words).astype(np.int64)),
        **{f"random.cuda.{i}": state for i, state in enumerate(cuda)},
    }
    settings = {
        "python": [python_version, python_gauss],
        "numpy": [numpy_kind, *numpy_rest],
        "cuda_devices": len(cuda),
    }
    return tensors, settings


def _versions() -> dict[str, str]:
    try:
        library = version("executable-transformer")
    except PackageNotFoundError:
        library = "not installed"  # a copy of the sources on the path
    return {"transformer_lib": library, "torch": torch.__version__, "python": platform.python_version()}


def _step_in_name(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _val_perplexity(path: Path) -> float | None:
    try:
        return _description(path)["val_perplexity"]
    except (ValueError, OSError):
        return None


def _weights_file(path: Path) -> Path:
    """The file with the weights: of a checkpoint, after checking its digests, or the path itself."""
    path = _present(path)
    if path.is_dir():
        read_checkpoint(path)
        return path / MODEL
    return path


def _weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights in a file, mapped into memory: a number is read when it is used."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        # Only the zip files that torch.save writes today can be mapped.
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # torch raises many kinds for a damaged file
        raise _damaged(path, str(error)) from error
    weights = state.get("model", state) if isinstance(state, dict) else {}
    if not weights or not all(isinstance(weight, torch.Tensor) for weight in weights.values()):
        raise ValueError(f"{path} holds neither a checkpoint nor a state dict")
    return weights


def _shapes(path: Path) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in _weights(path).items()}


def _spans(weights: Mapping[str, torch.Tensor]) -> Iterator[list[tuple[str, int, int]]]:
    """Cut the weights, laid end to end, into pieces of SPAN numbers: (name, start, stop) of each part of a piece."""
    spans: list[tuple[str, int, int]] = []
    room = SPAN
    for name, weight in weights.items():
        start = 0
        while start < weight.numel():
            stop = min(weight.numel(), start + room)
            spans.append((name, start, stop))
            room -= stop - start
            start = stop
            if not room:
                yield spans
                spans, room = [], SPAN
    if spans:
        yield spans
