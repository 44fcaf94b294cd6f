"""The number format of matrix products: what a device multiplies fast, and autocast into it."""

import statistics
import time
from functools import cache

import torch
from torch.amp.grad_scaler import GradScaler

from .config import Precision

FORMATS = {"bf16": torch.bfloat16, "fp16": torch.float16}
FAST = 1.5  # times as fast as in float32: less is not worth the lost digits


def chosen_precision(precision: Precision, device: torch.device) -> Precision:
    """What "auto" means on this device; any other precision is itself.

    bf16 on CUDA from capability 8.0 on and on a processor that multiplies it
    fast, fp16 on older cards, whose bfloat16 PyTorch emulates; else fp32.
    """
    if precision != "auto":
        return precision
    if device.type == "cuda":
        has_bf16 = torch.cuda.get_device_capability(device) >= (8, 0)
        return "bf16" if has_bf16 else "fp16"
    fast = device.type == "cpu" and multiplies_bf16_fast()
    return "bf16" if fast else "fp32"


@cache
def multiplies_bf16_fast() -> bool:
    """Whether the processor's products in bfloat16 take at most 1/1.5 of the time of float32's; measured once."""
    seconds: dict[torch.dtype, list[float]] = {torch.float32: [], torch.bfloat16: []}
    factors = {dtype: torch.ones(512, 512, dtype=dtype) for dtype in seconds}
    for _ in range(7):  # in turn, so that other work on the machine meets both
        for dtype, matrix in factors.items():
            started = time.perf_counter()
            _ = matrix @ matrix
            seconds[dtype].append(time.perf_counter() - started)
    float32, bfloat16 = (statistics.median(times) for times in seconds.values())
    return float32 >= FAST * bfloat16


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """Inside the `with` block matrix products run in this precision; PyTorch chooses which operations follow."""
    chosen = chosen_precision(precision, device)
    dtype = FORMATS.get(chosen, torch.bfloat16)
    return torch.autocast(device.type, dtype, enabled=chosen in FORMATS)


def gradient_scaler(precision: Precision, device: torch.device) -> GradScaler:
    """PyTorch's own scaler of the loss: of fp16; in other precisions it does nothing."""
    is_fp16 = chosen_precision(precision, device) == "fp16"
    return GradScaler(device.type, enabled=is_fp16)
