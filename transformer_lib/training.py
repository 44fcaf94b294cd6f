"""The learning rate, the optimizer and the loop."""

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from .config import TrainingConfig, check_positive
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
