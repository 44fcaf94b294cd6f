"""Sentences of ids to rectangular batches of about equal cost."""

import random
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..config import TransformerConfig, check_positive, check_seed
from ..shapes import SourceIds, TargetIds

Ids = list[int]


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as three arrays of ids, padded with pad_id.

    The decoder reads target_input and is asked for target_output: position i of the one is position i + 1 of
    the other, so a prediction never sees its own answer.
    """

    source: SourceIds  # the sentence, then <eos>
    target_input: TargetIds  # <bos>, then the sentence
    target_output: TargetIds  # the sentence, then <eos>
    target_tokens: int  # real ones, padding not counted
    special_ids: tuple[int, int, int] = (0, 1, 2)  # of padding, start and end

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        arrays = {name: array for name, array in vars(self).items() if isinstance(array, Tensor)}
        return replace(self, **{name: array.to(device, non_blocking=True) for name, array in arrays.items()})


def pad_rows(rows: Sequence[Ids], pad_id: int) -> Tensor:
    """One int64 array of the rows, each filled up with padding at its end."""
    width = max(len(row) for row in rows)
    padded = [row + [pad_id] * (width - len(row)) for row in rows]
    # NumPy reads lists several times as fast as torch.tensor does.
    return torch.from_numpy(np.array(padded))


def make_batch(
    pairs: Sequence[tuple[Ids, Ids]],
    pad_id: int = 0,
    bos_id: int = 1,
    eos_id: int = 2,
) -> Batch:
    """Shift the targets right, close each sentence with `<eos>`; only then pad.

    Source: section 3.1, "offset by one position" [causal-mask].

    Raises:
        ValueError: no pairs.
    """
    if not pairs:
        raise ValueError("no pairs: a batch needs at least one")
    sources, targets = zip(*pairs, strict=True)
    return Batch(
        source=pad_rows([[*row, eos_id] for row in sources], pad_id),
        target_input=pad_rows([[bos_id, *row] for row in targets], pad_id),
        target_output=pad_rows([[*row, eos_id] for row in targets], pad_id),
        target_tokens=sum(len(row) + 1 for row in targets),
        special_ids=(pad_id, bos_id, eos_id),
    )


def check_special_ids(batch: Batch, config: TransformerConfig) -> Batch:
    """The same batch.

    Raises:
        ValueError: its padding, start or end are other ids than the model's: a loss would count the wrong tokens.
    """
    own = (config.pad_id, config.bos_id, config.eos_id)
    if batch.special_ids != own:
        problem = f"a batch with the ids {batch.special_ids} of padding, start and end, and a model with {own}"
        raise ValueError(f"{problem}; make the batch with the model's")
    return batch


def token_batches(
    pairs: Sequence[tuple[Ids, Ids]],
    batch_tokens: int,
    seed: int = 0,
    pad_id: int = 0,
    bos_id: int = 1,
    eos_id: int = 2,
) -> Iterator[Batch]:
    """One epoch, in batches of like lengths that the seed puts in order.

    Source: section 5.1, "by approximate sequence length" [batching].

    Args:
        batch_tokens: most tokens on each side of a batch, padding included.

    Raises:
        ValueError: no pairs, a sentence longer than batch_tokens, or a seed below 0.
    """
    for group in batch_plan(pairs, batch_tokens, seed):
        yield make_batch([pairs[i] for i in group], pad_id, bos_id, eos_id)


def batch_plan(pairs: Sequence[tuple[Ids, Ids]], batch_tokens: int, seed: int = 0) -> list[np.ndarray]:
    """The indices of the pairs in each batch of one epoch. Only their lengths matter.

    Args and Raises: as of token_batches. Pairs that know their lengths, such as EncodedPairs, are not read at all.
    """
    check_positive(batch_tokens=batch_tokens)
    check_seed(seed)
    if not len(pairs):
        raise ValueError("no pairs: there is nothing to batch")
    lengths = token_counts(pairs)
    widths = lengths.max(axis=0) + 1  # <bos> or <eos>
    if widths.max() > batch_tokens:
        limit = f"batch_tokens = {batch_tokens}; raise the limit"
        raise ValueError(f"pair {widths.argmax()} has {widths.max()} tokens, more than {limit}")
    generator = random.Random(seed)
    shuffled = array("q", range(len(pairs)))
    # Pairs of one length meet other pairs in every epoch.
    generator.shuffle(shuffled)
    order = np.array(shuffled)
    # NumPy sorts numbers of 16 bits several times as fast as larger ones.
    source, target = lengths.astype(np.min_scalar_type(lengths.max()))
    # A stable sort: by target, then by source, else as shuffled.
    order = order[np.lexsort((source[order], target[order]))]
    groups = list(_groups(widths[order], order, batch_tokens))
    generator.shuffle(groups)
    return groups


def token_counts(pairs: Sequence[tuple[Ids, Ids]]) -> np.ndarray:
    """Tokens of each sentence, (2 sides, pairs), without `<bos>` and `<eos>`."""
    known = getattr(pairs, "lengths", None)
    return np.array([[len(ids) for ids in side] for side in zip(*pairs, strict=True)]) if known is None else known


def _groups(widths: np.ndarray, order: np.ndarray, batch_tokens: int) -> Iterator[np.ndarray]:
    begin = 0
    while begin < len(order):
        most = batch_tokens // widths[begin]  # rows, if none is wider
        widest = np.maximum.accumulate(widths[begin : begin + most])
        cells = widest * np.arange(1, len(widest) + 1)
        end = begin + np.searchsorted(cells, batch_tokens, side="right")
        yield order[begin:end]
        begin = end
