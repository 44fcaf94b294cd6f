"""Weights from PyTorch's own Transformer and from published Marian translators, and ours for other programs."""

from .ctranslate2 import Engine, export_ctranslate2
from .marian import export_marian, from_marian, to_marian
from .torch import from_torch, pytorch_names

__all__ = ["Engine", "export_ctranslate2", "export_marian", "from_marian", "from_torch", "pytorch_names", "to_marian"]
