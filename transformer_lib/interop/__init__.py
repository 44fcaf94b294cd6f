"""Weights from PyTorch's own Transformer and from published Marian translators, and ours for other programs."""

from .ctranslate2 import Engine, export_ctranslate2
from .marian import from_marian
from .torch import from_torch, pytorch_names

__all__ = ["Engine", "export_ctranslate2", "from_marian", "from_torch", "pytorch_names"]
