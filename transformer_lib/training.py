"""The learning rate, the optimizer and the loop."""

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from .config import TrainingConfig, TransformerConfig, check_positive
from .data.batches import Batch, Ids, batch_plan, check_special_ids, make_batch
from .distributed import gradient_sync, processes, replica, sum_over_processes
from .fast import token_losses
from .precision import autocast, gradient_scaler
from .r_drop import r_drop_loss
from .shapes import Scalar
from .transformer import Transformer

DIVERGED = "training diverged; lower rate_factor or raise warmup_steps"


def learning_rate(
    step_num: int,
    d_model: int,
    warmup_steps: int = 4000,
) -> float:
    """Rises linearly to step warmup_steps, then falls as 1 / √step_num.

        lrate = d_model^-0.5 · min(step_num^-0.5, step_num · warmup_steps^-1.5)

    Source: equation (3), section 5.3 [eq-3].

    Args:
        step_num: from 1.

    Raises:
        ValueError: a step_num, d_model or warmup_steps below 1.
    """
    check_positive(
        step_num=step_num,
        d_model=d_model,
        warmup_steps=warmup_steps,
    )
    return d_model**-0.5 * min(step_num**-0.5, step_num * warmup_steps**-1.5)


def adam(model: Transformer, config: TrainingConfig) -> torch.optim.Adam:
    """Adam with β1, β2 and ε of the config.

    The paper has 0.9, 0.98 and 1e-9. Source: section 5.3 [adam].
    """
    with torch.no_grad():
        for weight in model.parameters():
            weight.data = weight.data.contiguous()  # see one_layout
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
    overflows: int = 0  # attempts in fp16 before it, at larger scales

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
    scaler: GradScaler | None = None,
) -> Iterator[StepRecord]:
    """Train until num_steps, or until the batches end; a record per update.

    Each update uses the gradients of `accumulate` batches. Their losses are
    divided by the number of real target tokens in all of them together, so the
    update is that of one big batch. Several processes (torch.distributed) share
    out these batches.

    Args:
        batches: of the steps to come, in the same order in every run and
            every process; for a resumed run `epochs` skips the others.
        steps_done: updates already made.
        scaler: of the loss in fp16, to be saved with the optimizer; None: a
            new one. After an overflow the update is tried again at half the
            scale.

    Raises:
        ValueError: fewer batches in an update than processes; a batch with
            other special ids than the model's.
        FloatingPointError: the loss of a step is infinite or NaN, or its
            gradient is at every scale; the weights are those of the step
            before.
    """
    device = next(model.parameters()).device
    scaler = scaler or gradient_scaler(config.precision, device)
    one_layout(optimizer)
    rank, world_size = processes()
    pad_id, warmup_steps = model.config.pad_id, config.warmup_steps
    if config.accumulate < world_size:
        limit = f"{world_size} processes; give at least {world_size}"
        too_few = f"accumulate = {config.accumulate} is too few"
        raise ValueError(f"{too_few} for {limit}")
    parallel = replica(model)
    forward = parallel
    if config.compile:
        forward = torch.compile(parallel, dynamic=True)
    batches = (check_special_ids(batch, model.config) for batch in batches)
    for step_num in range(steps_done + 1, config.num_steps + 1):
        started = time.perf_counter()
        step_batches = list(itertools.islice(batches, config.accumulate))
        if len(step_batches) < world_size:
            return
        target_tokens = sum(batch.target_tokens for batch in step_batches)
        rate = learning_rate(step_num, model.config.d_model, warmup_steps)
        rate *= config.rate_factor
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        own_batches = [b.to(device) for b in step_batches[rank::world_size]]
        seed = hash((config.seed, step_num, rank)) % 2**32
        overflows = 0
        while True:
            optimizer.zero_grad()
            losses = []
            # Dropout depends on nothing that came before, so a resumed run
            # repeats it; each rank has its own.
            with seeded(seed, device):
                for i, batch in enumerate(own_batches, start=1):
                    with gradient_sync(parallel, now=i == len(own_batches)):
                        nats = batch_loss(forward, batch, config, pad_id)
                        loss = nats / target_tokens
                        # The synchronized gradient is the processes' mean.
                        scaler.scale(loss * world_size).backward()
                    losses.append(loss.detach())
            total = sum_over_processes(torch.stack(losses).sum())
            step_loss = total.item()  # waits for the device
            if not math.isfinite(step_loss) or scaler.get_scale() < 1:
                problem = f"step {step_num} has loss {step_loss}"
                where = f"at rate {rate:.3g}, scale {scaler.get_scale():.3g}"
                raise FloatingPointError(f"{problem} {where}: {DIVERGED}")
            if update(optimizer, scaler, config.max_grad_norm):
                break
            overflows += 1
        seconds = time.perf_counter() - started
        done = (step_num, step_loss, rate, target_tokens, seconds)
        yield StepRecord(*done, overflows)


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


def update(
    optimizer: torch.optim.Optimizer,
    scaler: GradScaler,
    max_grad_norm: float | None,
) -> bool:
    """Move the weights, unless a gradient overflowed; returns whether they did.

    An overflow, in fp16, halves the scale.
    """
    if max_grad_norm is not None:
        scaler.unscale_(optimizer)
        groups = optimizer.param_groups
        weights = [weight for group in groups for weight in group["params"]]
        torch.nn.utils.clip_grad_norm_(weights, max_grad_norm)
    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale() >= scale


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Draw from this seed inside the block; afterwards the caller's own random numbers go on as before it."""
    cards = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(cards):
        torch.manual_seed(seed)
        yield


def batch_loss(
    forward: Callable[..., Tensor],
    batch: Batch,
    config: TrainingConfig,
    pad_id: int,
) -> Scalar:
    """The sum of the smoothed losses of all real target tokens, in nats."""
    with autocast(config.precision, batch.source.device):
        if config.r_drop:
            rest = (config.epsilon_ls, config.r_drop, pad_id)
            return r_drop_loss(forward, batch, *rest)
        logits = forward(batch.source, batch.target_input)
        target, epsilon_ls = batch.target_output, config.epsilon_ls
        return token_losses(logits, target, epsilon_ls, pad_id).sum()


def epochs(
    pairs: Sequence[tuple[Ids, Ids]],
    model_config: TransformerConfig,
    config: TrainingConfig,
    skip: int = 0,
) -> Iterator[Batch]:
    """Batches of the pairs without end; the seed gives each epoch its order.

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
