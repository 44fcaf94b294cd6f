"""What a training step costs in floating-point operations and in bytes, counted from the sizes of the model."""

from collections.abc import Sequence

from transformer_lib import TransformerConfig
from transformer_lib.reference import forward_flops


def training_flops(
    config: TransformerConfig,
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
) -> int:
    """Operations of a training step on these pairs, padding not counted.

    Each product of the forward pass has two more of its size in the backward
    pass.
    """
    pairs = zip(source_lengths, target_lengths, strict=True)
    forward = (forward_flops(config, *lengths) for lengths in pairs)
    return 3 * sum(sum(parts.values()) for parts in forward)


def state_bytes(parameters: int) -> int:
    """Bytes of weights, their gradients and Adam's averages in float32."""
    return 4 * (1 + 1 + 2) * parameters


def intensity(
    rows: int,
    inner: int,
    columns: int,
    bytes_per_number: int = 4,
) -> float:
    """Operations of a matrix product for each byte of its three matrices."""
    numbers = rows * inner + inner * columns + rows * columns
    return 2 * rows * inner * columns / (bytes_per_number * numbers)
