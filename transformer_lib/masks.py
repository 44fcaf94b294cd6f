"""The two masks of the model. Everywhere in this library True means: this query may look at this key.

That is the meaning of `torch.nn.functional.scaled_dot_product_attention`. The masks of
`torch.nn.MultiheadAttention` mean the opposite: there True hides a key.
"""

import torch
from jaxtyping import Bool
from torch import Tensor

from .config import check_positive
from .shapes import TargetIds


def causal_mask(
    length: int,
    device: torch.device | None = None,
) -> Bool[Tensor, "queries keys"]:
    """Lower triangle: position i may look at positions 0 to i, no later one.

    Source: section 3.2.3, third use [causal-mask].

    Raises:
        ValueError: a length below 1.
    """
    check_positive(length=length)
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def padding_mask(
    tokens: TargetIds,
    pad_id: int,
) -> Bool[Tensor, "batch 1 1 keys"]:
    """True at real tokens, False at padding; broadcasts over heads and queries.

    A batch needs it because sentences have different lengths; the paper leaves
    it unsaid.
    """
    # (batch, heads=1, queries=1, keys)
    return (tokens != pad_id)[:, None, None, :]
