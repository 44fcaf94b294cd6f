"""Weights from PyTorch's own Transformer and from published Marian translators, as the same function."""

from .marian import from_marian
from .torch import from_torch, pytorch_names

__all__ = ["from_marian", "from_torch", "pytorch_names"]
