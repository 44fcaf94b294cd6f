"""Attention Is All You Need, one function for each equation.

The functions are explained, run and drawn in the book; its tests prove each against something independent.
"""

from importlib.metadata import version

from . import interop as interop  # a folder of functions, beside the names below
from .attention import MultiHeadAttention, scaled_dot_product_attention
from .config import BASE, BIG, TABLE_3, TrainingConfig, TransformerConfig
from .decoding import beam_hypotheses, beam_search, greedy_decode
from .layers import FeedForward
from .loss import label_smoothing_loss
from .masks import causal_mask, padding_mask
from .positional_encoding import sinusoids
from .run.checkpoints import average_checkpoints
from .run.translator import Translator
from .training import learning_rate
from .transformer import Transformer, count_parameters, record_attention

__version__ = version("executable-transformer")

__all__ = [
    "BASE",
    "BIG",
    "TABLE_3",
    "FeedForward",
    "MultiHeadAttention",
    "TrainingConfig",
    "Transformer",
    "TransformerConfig",
    "Translator",
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
