"""The learning rate, the optimizer, the loop, and checkpoints to continue from."""

import itertools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from .config import TrainingConfig, TransformerConfig, check_positive, config_from_dict
from .data.batches import Batch, Ids, token_batches
from .loss import token_losses
from .transformer import Transformer


def learning_rate(step_num: int, d_model: int, warmup_steps: int = 4000) -> float:
    """Rises linearly for warmup_steps steps, then falls with the square root of the step.

        lrate = d_model^-0.5 · min(step_num^-0.5, step_num · warmup_steps^-1.5)

    Source: equation (3), section 5.3 [eq-3].

    Args:
        step_num: from 1.

    Raises:
        ValueError: a step_num, d_model or warmup_steps below 1.
    """
    check_positive(step_num=step_num, d_model=d_model, warmup_steps=warmup_steps)
    return d_model**-0.5 * min(step_num**-0.5, step_num * warmup_steps**-1.5)


def adam(model: Transformer, config: TrainingConfig) -> torch.optim.Adam:
    """Adam with β1 = 0.9, β2 = 0.98 and ε = 1e-9. Source: section 5.3 [adam]."""
    betas = (config.beta1, config.beta2)
    # The rate is 0 until `train` sets it, at each step.
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=betas, eps=config.epsilon)


@dataclass(frozen=True)
class StepRecord:
    """What one update of the weights did."""

    step_num: int  # from 1
    loss_nats_per_token: float  # smoothed, before the update
    learning_rate: float
    target_tokens: int  # real ones, in all batches of the step
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Real target tokens per second of this step."""
        return self.target_tokens / self.seconds


def train(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Batch],
    config: TrainingConfig,
    steps_done: int = 0,
) -> Iterator[StepRecord]:
    """Train until num_steps, or until the batches end; yields a record after each update.

    Each update uses the gradients of `accumulate` batches. Their losses are divided by
    the number of real target tokens in all of them together, so the update is that of
    one big batch.

    Args:
        batches: from the first step on, in the same order in every run.
        steps_done: updates already made; their batches are skipped.
    """
    device, pad_id = next(model.parameters()).device, model.config.pad_id
    batches = itertools.islice(batches, steps_done * config.accumulate, None)
    for step_num in range(steps_done + 1, config.num_steps + 1):
        started = time.perf_counter()
        step_batches = list(itertools.islice(batches, config.accumulate))
        if not step_batches:
            return
        target_tokens = sum(batch.target_tokens for batch in step_batches)
        rate = learning_rate(step_num, model.config.d_model, config.warmup_steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        optimizer.zero_grad()
        step_loss = 0.0
        for batch in (batch.to(device) for batch in step_batches):
            logits = model(batch.source, batch.target_input)
            losses = token_losses(logits, batch.target_output, config.epsilon_ls, pad_id)
            loss = losses.sum() / target_tokens
            loss.backward()
            step_loss += loss.item()
        optimizer.step()
        seconds = time.perf_counter() - started
        yield StepRecord(step_num, step_loss, rate, target_tokens, seconds)


def passes(pairs: Sequence[tuple[Ids, Ids]], config: TrainingConfig) -> Iterator[Batch]:
    """Batches of the pairs without end; each pass has an order of its own, fixed by the seed."""
    if not pairs:
        raise ValueError("no pairs: there is nothing to train on")
    for number in itertools.count():
        yield from token_batches(pairs, config.batch_tokens, seed=config.seed * 1_000_003 + number)


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
