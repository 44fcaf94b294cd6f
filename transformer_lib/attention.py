"""Attention: equation (1), and its additive rival."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .config import check_positive
from .shapes import Attended, Key, Mask, Query, Value, Weights


def scaled_dot_product_attention(
    query: Query, key: Key, value: Value, mask: Mask | None = None
) -> tuple[Attended, Weights]:
    """For each query, the average of the values, weighted by how keys match.

        Attention(query, key, value) = softmax(query keyᵀ / √d_k) value

    Source: equation (1), section 3.2.1 [eq-1]; footnote 4 for 1/√d_k [scale].
    Source: n² · d multiplications, twice, Table 1 [table-1].

    Args:
        mask: True where the query may look at the key.

    Returns:
        output and weights; both are zero in a row whose mask allows no key.

    Raises:
        ValueError: a mask that is not boolean or does not broadcast to
            (..., queries, keys).
    """
    d_k = query.size(-1)
    # (..., queries, keys). Divided before the product, which could overflow
    # in half precision.
    scores = (query / math.sqrt(d_k)) @ key.transpose(-2, -1)
    weights = masked_softmax(scores, mask)
    return weights @ value, weights  # (..., queries, d_v), (..., queries, keys)


def masked_softmax(scores: Weights, mask: Mask | None = None) -> Weights:
    """Softmax over the keys that the mask allows; the others get weight 0.

    Source: "setting to −∞", section 3.2.3 [causal-mask].

    Args:
        mask: True where the query may look at the key; None allows every key.

    Returns:
        weights, each row summing to 1, or to 0 where the mask allows no key.

    Raises:
        ValueError: a mask that is not boolean or does not broadcast
            to the scores.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    check_mask(mask, scores.shape)
    # exp(-∞) = 0 in every precision. On the way back this gives a hidden
    # score the derivative 0, even where the softmax is NaN.
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    # The softmax of a row of nothing but -∞ is NaN; here it becomes zeros.
    return weights.masked_fill(~mask, 0.0)


def check_mask(mask: Tensor, scores_shape: torch.Size) -> None:
    """Raise ValueError unless the mask is boolean and broadcasts to the shape of the scores."""
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask has dtype {mask.dtype}; it must be torch.bool, True where the query may look at the key"
        )
    leading = len(scores_shape) - mask.dim()
    fits = leading >= 0 and all(m in (1, s) for m, s in zip(mask.shape, scores_shape[leading:], strict=True))
    if not fits:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}, which does not broadcast to the scores' shape "
            f"{tuple(scores_shape)} = (..., queries, keys)"
        )


class AdditiveAttention(nn.Module):
    """Attention whose score is a network with one hidden layer of tanh units.

        score(query, key) = w · tanh(W^Q query + W^K key + b)

    Source: section 3.2.1, after Bahdanau et al. (2015) [additive].
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int):
        super().__init__()
        check_positive(d_query=d_query, d_key=d_key, d_hidden=d_hidden)
        self.query_projection = nn.Linear(d_query, d_hidden, bias=False)
        self.key_projection = nn.Linear(d_key, d_hidden)
        self.score = nn.Linear(d_hidden, 1, bias=False)

    def forward(
        self,
        query: Float[Tensor, "*batch queries d_query"],
        key: Float[Tensor, "*batch keys d_key"],
        value: Value,
        mask: Mask | None = None,
    ) -> tuple[Attended, Weights]:
        """Output and weights; mask as in scaled dot-product attention."""
        from_queries = self.query_projection(query).unsqueeze(-2)
        from_keys = self.key_projection(key).unsqueeze(-3)
        pairs = from_queries + from_keys
        # (..., queries, keys, d_hidden) -> (..., queries, keys)
        scores = self.score(pairs.tanh()).squeeze(-1)
        weights = masked_softmax(scores, mask)
        return weights @ value, weights
