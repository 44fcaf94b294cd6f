"""Other people's weights: PyTorch's own Transformer, and published Marian translators."""

from .marian import from_marian, to_marian
from .torch import from_torch, pytorch_names

__all__ = ["from_marian", "from_torch", "pytorch_names", "to_marian"]
