"""The number format of matrix products: what a device is given, and autocast into it."""

from typing import Literal

import torch
from torch.amp.grad_scaler import GradScaler

Precision = Literal["fp32", "bf16", "fp16", "auto"]
FORMATS = {"bf16": torch.bfloat16, "fp16": torch.float16}


def chosen_precision(precision: Precision, device: torch.device) -> Precision:
    """What "auto" means on this device; any other precision is itself.

    bf16 on CUDA from capability 8.0 on, fp16 on older cards, whose bfloat16
    PyTorch emulates; elsewhere fp32.
    """
    if precision != "auto":
        return precision
    if device.type != "cuda":
        return "fp32"
    has_bf16 = torch.cuda.get_device_capability(device) >= (8, 0)
    return "bf16" if has_bf16 else "fp16"


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """Inside the `with` block matrix products run in this precision; PyTorch chooses which operations follow."""
    chosen = chosen_precision(precision, device)
    dtype = FORMATS.get(chosen, torch.bfloat16)
    return torch.autocast(device.type, dtype, enabled=chosen in FORMATS)


def gradient_scaler(precision: Precision, device: torch.device) -> GradScaler:
    """PyTorch's own scaler of the loss: of fp16; in other precisions it does nothing."""
    is_fp16 = chosen_precision(precision, device) == "fp16"
    return GradScaler(device.type, enabled=is_fp16)
