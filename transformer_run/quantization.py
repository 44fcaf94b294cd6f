"""Weights as integers of 2 to 8 bits, so that a trained model is a small file."""

from collections.abc import Mapping

import torch
from torch import Tensor

SCALE = ".scale"  # ending of the names under which the scales are kept


def quantize(weights: Mapping[str, Tensor], bits: int = 8) -> dict[str, Tensor]:
    """Each matrix as 8-bit integers and one scale a row: weight ≈ integer · scale.

    The largest weight of a row becomes ±127; the others are rounded, so none moves by more than half the row's scale.
    Vectors (biases, normalisations) stay as they are: they are few. With 7 bits the largest integer is 63, with 6 it
    is 31. Each integer still takes a byte, but the file compresses better.

    Args:
        weights: a state dict.
        bits: 2 to 8.

    Returns:
        for each matrix `name` of shape (rows, columns): `name`, int8, of the same shape, and `name.scale`, float32,
        of shape (rows, 1).

    Raises:
        ValueError: other bits, or a matrix with NaN or infinity.
    """
    if not 2 <= bits <= 8:
        raise ValueError(f"bits = {bits}; a weight has 2 to 8")
    largest = 2 ** (bits - 1) - 1
    packed: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if weight.dim() != 2:
            packed[name] = weight.detach().clone()
            continue
        if not weight.isfinite().all():
            raise ValueError(f"{name} holds NaN or infinity: the training diverged; pack an earlier checkpoint")
        scale = weight.detach().float().abs().amax(dim=1, keepdim=True) / largest  # (rows, 1)
        scale = scale.where(scale > 0, 1.0)  # a row of zeros
        packed[name] = (weight.detach().float() / scale).round().to(torch.int8)
        packed[name + SCALE] = scale
    return packed


def dequantize(packed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict that `quantize` came from, up to its rounding, in float32.

    Raises:
        ValueError: 8-bit weights without their scales.
    """
    weights: dict[str, Tensor] = {}
    for name, tensor in packed.items():
        if tensor.dtype == torch.int8 and name + SCALE not in packed:
            raise ValueError(f"{name} is in 8 bits but its scales, {name + SCALE}, are missing")
        if not name.endswith(SCALE):
            weights[name] = tensor * packed[name + SCALE] if tensor.dtype == torch.int8 else tensor
    return weights
