"""Checkpoints to continue from, and the average of several."""

import os
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch

from .config import TransformerConfig, config_from_dict
from .transformer import Transformer

CHECKPOINT_KEYS = {"config", "model", "optimizer", "step_num", "random_state", "cuda_random_states"}


def save_checkpoint(path: Path | str, model: Transformer, optimizer: torch.optim.Optimizer, step_num: int) -> None:
    """Everything that a run needs to go on as if it had never stopped, in one file.

    The file appears whole or not at all: it is written under another name, flushed and renamed.
    """
    state = {
        "config": asdict(model.config),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step_num": step_num,
        "random_state": torch.get_rng_state(),
        "cuda_random_states": torch.cuda.get_rng_state_all(),  # an empty list without a GPU
    }
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def load_checkpoint(path: Path | str, model: Transformer, optimizer: torch.optim.Optimizer | None = None) -> int:
    """Put a checkpoint's weights into the model; with an optimizer, its state and the random state too.

    Returns:
        the number of updates that the checkpoint has behind it.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a damaged or foreign file, or a model of another config; the model stays as it was.
    """
    path = Path(path)
    state = read_checkpoint(path)
    try:
        saved = config_from_dict(TransformerConfig, state["config"])
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} holds no config of this library: {error}") from error
    if saved != model.config:
        names = [f.name for f in fields(saved) if getattr(saved, f.name) != getattr(model.config, f.name)]
        differing = "; ".join(f"{n} is {getattr(saved, n)!r} there, {getattr(model.config, n)!r} here" for n in names)
        raise ValueError(f"{path} is a checkpoint from another config: {differing}")
    if state["model"].keys() != model.state_dict().keys():
        odd = ", ".join(sorted(state["model"].keys() ^ model.state_dict().keys())[:3])
        raise ValueError(f"{path} does not hold the weights of this model; too many or missing: {odd}")
    model.load_state_dict(state["model"])
    if optimizer is not None:
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random_state"])
        if len(state["cuda_random_states"]) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(state["cuda_random_states"])
    return state["step_num"]


def read_checkpoint(path: Path | str) -> dict[str, Any]:
    """The content of a checkpoint, on the CPU; loading it runs no code. Raises as load_checkpoint does."""
    path = Path(path)
    state = _load(path)
    missing = CHECKPOINT_KEYS - state.keys() if isinstance(state, dict) else CHECKPOINT_KEYS
    if missing:
        raise ValueError(f"{path} is no checkpoint of this library: it lacks {', '.join(sorted(missing))}")
    return state


def average_checkpoints(paths: Iterable[Path | str]) -> dict[str, torch.Tensor]:
    """The mean of the weights in several files, as a state dict; reads one file at a time.

    Source: section 6.1, the last 5 checkpoints of base and the last 20 of big [ckpt-avg].

    Args:
        paths: of checkpoints, or of state dicts saved with torch.save.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no paths, a damaged file, or weights of different names or shapes.
    """
    files = [Path(path) for path in paths]
    if not files:
        raise ValueError("no paths: an average needs at least one checkpoint")
    first = _weights(files[0])
    total = {name: weight.double() for name, weight in first.items()}
    for path in files[1:]:
        weights = _weights(path)
        shapes = {name: weight.shape for name, weight in weights.items()}
        if shapes != {name: weight.shape for name, weight in first.items()}:
            raise ValueError(f"{path} and {files[0]} are of different models and have no common mean")
        for name, weight in weights.items():
            total[name] += weight
    return {name: (weight / len(files)).to(first[name].dtype) for name, weight in total.items()}


def _weights(path: Path) -> dict[str, torch.Tensor]:
    state = _load(path)
    weights = state.get("model", state) if isinstance(state, dict) else {}
    if not weights or not all(isinstance(weight, torch.Tensor) for weight in weights.values()):
        raise ValueError(f"{path} holds neither a checkpoint nor a state dict")
    return weights


def _load(path: Path) -> Any:
    if not path.exists():
        raise FileNotFoundError(f"no checkpoint at {path}")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a damaged file
        raise ValueError(f"{path} is truncated, altered or no checkpoint of this library: {error}") from error
