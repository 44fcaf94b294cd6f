"""The optimizer and the loop."""

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

from .config import TrainingConfig, TransformerConfig
from .data.batches import Batch, Ids, batch_plan, check_special_ids, make_batch
from .fast import token_losses
from .learning_rate import learning_rate
from .shapes import Scalar
from .transformer import Transformer

DIVERGED = "training diverged; lower rate_factor or raise warmup_steps"


def adam(model: Transformer, config: TrainingConfig) -> torch.optim.Adam:
    """Adam with β1, β2 and ε of the config.

    The paper has 0.9, 0.98 and 1e-9. Source: section 5.3 [adam].
    """
    betas = (config.beta1, config.beta2)
    return torch.optim.Adam(
        model.parameters(),
        lr=0.0,  # until `train` sets it, at each step
        betas=betas,
        eps=config.epsilon,
        fused=True,  # one pass over each weight
    )


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


def one_update(
    model: Transformer,
    optimizer: Optimizer,
    batches: Sequence[Batch],
    config: TrainingConfig,
    step_num: int,
) -> float:
    """Move the weights once, by the gradient of all these batches together.

    Their losses are divided by the number of real target tokens in all of
    them, so the update is that of one big batch.

    Returns:
        the loss before the update, in nats per token.

    Raises:
        FloatingPointError: the loss or its gradient is infinite or NaN; the
            weights are those of the step before.
    """
    device = next(model.parameters()).device
    target_tokens = sum(batch.target_tokens for batch in batches)
    optimizer.zero_grad()
    losses = []
    # Dropout depends on nothing that came before, so a resumed run repeats it.
    with seeded(dropout_seed(config.seed, step_num), device):
        for batch in (batch.to(device) for batch in batches):
            nats = batch_loss(model, batch, config.epsilon_ls)
            loss = nats / target_tokens
            loss.backward()
            losses.append(loss.detach())
    step_loss = torch.stack(losses).sum().item()  # waits for the device
    gradient_norm = shorten_gradient(optimizer, config.max_grad_norm)
    if not math.isfinite(step_loss + gradient_norm):
        raise diverged(step_num, optimizer, step_loss, gradient_norm)
    optimizer.step()
    return step_loss


Update = Callable[[Transformer, Optimizer, Sequence[Batch], TrainingConfig, int], float]


def train(
    model: Transformer,
    optimizer: Optimizer,
    batches: Iterable[Batch],
    config: TrainingConfig,
    steps_done: int = 0,
    update: Update | None = None,
) -> Iterator[StepRecord]:
    """Train until num_steps, or the batches end; a record for each update.

    Args:
        batches: of the steps to come; each update takes `accumulate` of them.
        steps_done: updates already made.
        update: with the arguments of one_update; None: that one.

    Raises:
        ValueError: a batch with other special ids than the model's.
        FloatingPointError: as one_update.
    """
    one_layout(optimizer)
    update = update or one_update
    batches = (check_special_ids(batch, model.config) for batch in batches)
    for step_num in range(steps_done + 1, config.num_steps + 1):
        started = time.perf_counter()
        of_step = list(itertools.islice(batches, config.accumulate))
        if not of_step:
            return
        d_model, warmup_steps = model.config.d_model, config.warmup_steps
        rate = learning_rate(step_num, d_model, warmup_steps)
        rate *= config.rate_factor
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        loss = update(model, optimizer, of_step, config, step_num)
        target_tokens = sum(batch.target_tokens for batch in of_step)
        seconds = time.perf_counter() - started
        yield StepRecord(step_num, loss, rate, target_tokens, seconds)


def one_layout(optimizer: torch.optim.Optimizer) -> None:
    """Store each weight and what the optimizer keeps of it row by row.

    Fused Adam goes through both as they lie in memory. Weights from elsewhere may
    lie column by column, where the averages of a checkpoint do not.
    """
    groups = optimizer.param_groups
    for weight in [weight for group in groups for weight in group["params"]]:
        weight.data = weight.data.contiguous()
        kept = optimizer.state.get(weight, {})
        for name, value in kept.items():
            if isinstance(value, Tensor):
                kept[name] = value.contiguous()


def batch_loss(
    model: Callable[..., Tensor],
    batch: Batch,
    epsilon_ls: float,
) -> Scalar:
    """The sum of the smoothed losses of all real target tokens, in nats."""
    logits = model(batch.source, batch.target_input)
    target, pad_id = batch.target_output, batch.special_ids[0]
    return token_losses(logits, target, epsilon_ls, pad_id).sum()


def shorten_gradient(
    optimizer: Optimizer,
    max_norm: float | None,
) -> float:
    """Shorten the gradient of all weights to max_norm if it is longer.

    None: leave it. Returns the norm that it had.
    """
    groups = optimizer.param_groups
    weights = [weight for group in groups for weight in group["params"]]
    limit = math.inf if max_norm is None else max_norm
    return torch.nn.utils.clip_grad_norm_(weights, limit).item()


def diverged(step_num: int, optimizer: Optimizer, loss: float, gradient_norm: float) -> FloatingPointError:
    """The error of a step whose numbers are no longer finite."""
    found = f"loss {loss} and a gradient of norm {gradient_norm}"
    rate = optimizer.param_groups[0]["lr"]
    where = f"step {step_num} has {found} at rate {rate:.3g}"
    return FloatingPointError(f"{where}: {DIVERGED}")


def dropout_seed(seed: int, step_num: int, rank: int = 0) -> int:
    """Of the step's dropout: another one for each step and each process."""
    return hash((seed, step_num, rank)) % 2**32


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Draw from this seed inside the block; afterwards the caller's own random numbers go on as before it."""
    cards = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(cards):
        torch.manual_seed(seed)
        yield


def epochs(
    pairs: Sequence[tuple[Ids, Ids]],
    model_config: TransformerConfig,
    config: TrainingConfig,
    skip: int = 0,
) -> Iterator[Batch]:
    """Batches of the pairs without end; the seed gives each epoch its order.

        pairs = [(source_ids, target_ids)]  # lists of ids
        batches = epochs(pairs, model.config, TrainingConfig())

    Args:
        model_config: of the model to train, whose pad, start and end ids the
            batches get.
        skip: so many batches from the first one on are left out; their pairs
            are not read.

    Raises:
        ValueError: no pairs.
    """
    if not pairs:
        raise ValueError("no pairs: there is nothing to train on")
    special = model_config.pad_id, model_config.bos_id, model_config.eos_id
    for epoch in itertools.count():
        seed = config.seed * 1_000_003 + epoch
        groups = batch_plan(pairs, config.batch_tokens, seed)
        for group in groups[skip:]:
            yield make_batch([pairs[i] for i in group], *special)
        skip = max(0, skip - len(groups))
