"""Attention Is All You Need, one function for each equation.

The functions are explained, run and drawn in the book; its tests prove each against something independent.
"""

from importlib.metadata import PackageNotFoundError, version

from . import interop as interop  # a folder of functions, beside the names below
from .attention import scaled_dot_product_attention
from .config import BASE, BIG, TABLE_3, TrainingConfig, TransformerConfig
from .decoding import beam_hypotheses, beam_search, greedy_decode
from .label_smoothing import label_smoothing_loss
from .layers import FeedForward
from .learning_rate import learning_rate
from .masks import causal_mask, padding_mask
from .multi_head_attention import MultiHeadAttention
from .positional_encoding import sinusoids
from .transformer import Transformer, count_parameters, record_attention
from .weight_files import average_checkpoints

try:
    __version__ = version("executable-transformer")
except PackageNotFoundError:  # a copy of the files, as a machine without a network may have it
    __version__ = "not installed"

__all__ = [
    "BASE",
    "BIG",
    "TABLE_3",
    "FeedForward",
    "MultiHeadAttention",
    "TrainingConfig",
    "Transformer",
    "TransformerConfig",
    "__version__",
    "average_checkpoints",
    "beam_hypotheses",
    "beam_search",
    "causal_mask",
    "count_parameters",
    "greedy_decode",
    "label_smoothing_loss",
    "learning_rate",
    "padding_mask",
    "record_attention",
    "scaled_dot_product_attention",
    "sinusoids",
]
