"""The work that everybody does: sizes, batches, the checks that it was done, and the statistics of its times."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

PAD, BOS, EOS = 0, 1, 2
FIRST_WORD = 4  # ids below are special in one peer or another
BETAS, EPSILON = (0.9, 0.98), 1e-9
EPSILON_LS = 0.1
RATE_WARMUP = 100  # steps in which the rate of equation (3) rises: short, so that losses fall within a few steps


@dataclass(frozen=True)
class Shape:
    """The sizes of the model; the head's width is d_model / num_heads."""

    vocabulary: int = 8000
    d_model: int = 256
    num_layers: int = 3
    num_heads: int = 8
    d_ff: int = 1024
    p_drop: float = 0.1


@dataclass(frozen=True)
class Work:
    """What is computed, and how often.

    Args:
        target_tokens: of one batch, at least; real ones, `<eos>` included.
        lengths: of a sentence on either side, shortest and longest, `<eos>` included.
        spread: most that the lengths of one batch differ; None: the whole range, as they come.
        warm_up, steps: training steps before all rounds, and in each.
        sentences, beam_sentences: decoded together; one_by_one: decoded singly.
        decode_length: tokens that are generated for each sentence, no more and no fewer.
        tiny: only to see whether everything runs.
    """

    shape: Shape = field(default_factory=Shape)
    batches: int = 4
    target_tokens: int = 2000
    lengths: tuple[int, int] = (8, 40)
    spread: int | None = None
    warm_up: int = 6
    steps: int = 3
    rounds: int = 7
    sentences: int = 64
    one_by_one: int = 8
    beam_sentences: int = 32
    beam_size: int = 4
    decode_length: int = 24
    seed: int = 0
    tiny: bool = False


FULL = Work()
TINY = Work(
    shape=Shape(vocabulary=60, d_model=16, num_layers=1, num_heads=2, d_ff=32),
    batches=2,
    target_tokens=100,
    warm_up=16,
    steps=2,
    rounds=2,
    sentences=4,
    one_by_one=2,
    beam_sentences=2,
    decode_length=6,
    tiny=True,
)
# The most by which lengths differ in a batch: sentences of like length, as toolkits make them, and all lengths, padded.
KINDS: dict[str, int | None] = {"bucketed": 4, "as they come": None}


class PaddedBatch(NamedTuple):
    """Sentence pairs as ids, padded with 0 at the end; the target's output is its input one place further."""

    source: Tensor
    target_input: Tensor
    target_output: Tensor
    target_tokens: int


def training_batches(work: Work) -> list[PaddedBatch]:
    """The batches, the same in every process: the seed fixes the lengths and the words."""
    generator = random.Random(work.seed)
    return [_batch(work, generator) for _ in range(work.batches)]


def _batch(work: Work, generator: random.Random) -> PaddedBatch:
    shortest, longest = work.lengths
    if work.spread is not None:
        shortest = generator.randint(shortest, max(shortest, longest - work.spread))
        longest = min(longest, shortest + work.spread)
    sources, targets = [], []
    while sum(map(len, targets)) < work.target_tokens:
        length = generator.randint(shortest, longest)
        targets.append(_sentence(work, length, generator))
        other = min(longest, max(shortest, length + generator.randint(-4, 4)))  # a translation is about as long
        sources.append(_sentence(work, other, generator))
    inputs = [[BOS, *target[:-1]] for target in targets]
    return PaddedBatch(_padded(sources), _padded(inputs), _padded(targets), sum(map(len, targets)))


def padding(batches: Sequence[PaddedBatch]) -> float:
    """The share of the cells of both sides that hold no word."""
    sides = [side for batch in batches for side in (batch.source, batch.target_output)]
    return sum(int((side == PAD).sum()) for side in sides) / sum(side.numel() for side in sides)


def sources_to_decode(work: Work, count: int) -> Tensor:
    """That many source sentences, padded; of a smaller number the same first ones."""
    generator = random.Random(work.seed + 1)
    return _padded([_sentence(work, generator.randint(*work.lengths), generator) for _ in range(count)])


def without_padding(source: Tensor) -> list[Tensor]:
    """Each sentence as a batch of its own."""
    return [row[row != PAD].unsqueeze(0) for row in source]


def _sentence(work: Work, length: int, generator: random.Random) -> list[int]:
    # Words as rare as in a language, after Zipf: their frequencies are what a few steps can learn.
    words = work.shape.vocabulary - FIRST_WORD
    return [FIRST_WORD + int(words ** generator.random()) - 1 for _ in range(length - 1)] + [EOS]


def _padded(rows: list[list[int]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def rate(step: int, d_model: int) -> float:
    """Equation (3), step from 1: everybody's learning rate."""
    return d_model**-0.5 * min(step**-0.5, step * RATE_WARMUP**-1.5)


class WrongWorkError(Exception):
    """A peer did not do the work that the others do."""


def check_losses(losses: Sequence[float]) -> None:
    """Refuse losses that are not finite or do not fall: the second half of them must be lower on average."""
    half = len(losses) // 2
    if not all(torch.tensor(losses).isfinite()):
        raise WrongWorkError(f"a loss is not finite: {[round(loss, 3) for loss in losses]}")
    before, after = statistics.fmean(losses[:half]), statistics.fmean(losses[half:])
    if not after < before:
        raise WrongWorkError(
            f"the loss does not fall: {before:.4f} in the first {half} steps, {after:.4f} in the other "
            f"{len(losses) - half}; the gradients do not reach the weights, or the optimiser does not"
        )


def check_logits(shape: Sequence[int], batch: PaddedBatch, vocabulary: int) -> None:
    """Refuse logits of another shape than (sentences, target, vocabulary)."""
    expected = (*batch.target_input.shape, vocabulary)
    if tuple(shape) != expected:
        raise WrongWorkError(f"the logits have shape {tuple(shape)}; the work has {expected}")


def check_generated(rows: Sequence[Sequence[int]], sentences: int, length: int) -> None:
    """Refuse output that stopped early or went on too long."""
    lengths = [len(row) for row in rows]
    if lengths != [length] * sentences:
        raise WrongWorkError(f"generated tokens per sentence: {lengths}; the work is {sentences} times {length}")
    if any(token in (PAD, EOS) for row in rows for token in row):
        raise WrongWorkError("a sentence holds padding or <eos>, so it ended early")


def ratios(rates: Sequence[float], base: Sequence[float]) -> dict[str, float]:
    """How many times faster than the base: the median of the rounds' ratios, and the smallest and the largest."""
    each = [rate / other for rate, other in zip(rates, base, strict=True)]
    return {"median": statistics.median(each), "min": min(each), "max": max(each)}
