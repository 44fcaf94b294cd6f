"""Attention: equation (1), several heads of it side by side, and its additive rival."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from .config import check_positive
from .fast import formula_is_faster
from .shapes import Attended, HeadsKey, HeadsValue, Key, KeyStates, Mask, Query, QueryStates, Value, Weights


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


class MultiHeadAttention(nn.Module):
    """Attention in num_heads learned projections at once, concatenated and projected back.

        MultiHead(query, key, value) = Concat(head_1, …, head_h) W^O
        head_i = Attention(query W_i^Q, key W_i^K, value W_i^V)

    The matrices W_1^Q … W_h^Q stand side by side in one `query_projection`; likewise for key and value.

    Source: section 3.2.2 [mha].

    Args:
        d_k, d_v: width of one head; they need not be d_model / num_heads (Table 3, rows A and B).
        bias: whether the four projections add a bias; the paper's formula has none.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_k: int,
        d_v: int,
        bias: bool = False,
    ):
        super().__init__()
        check_positive(d_model=d_model, num_heads=num_heads, d_k=d_k, d_v=d_v)
        self.num_heads = num_heads
        self.query_projection = nn.Linear(d_model, num_heads * d_k, bias)
        self.key_projection = nn.Linear(d_model, num_heads * d_k, bias)
        self.value_projection = nn.Linear(d_model, num_heads * d_v, bias)
        self.output_projection = nn.Linear(num_heads * d_v, d_model, bias)

    def forward(
        self,
        query: QueryStates,
        key: KeyStates,
        value: KeyStates,
        mask: Mask | None = None,
    ) -> QueryStates:
        """Mix the value states into each query position.

        All shapes are (batch, length, d_model).

        Args:
            mask: True where the query may look at the key;
                broadcasts to (batch, heads, queries, keys).

        Raises:
            ValueError: a mask that is not boolean or does not broadcast,
                or different numbers of keys and values.
        """
        return self.attend(query, *self.keys_and_values(key, value), mask)

    def keys_and_values(
        self,
        key: KeyStates,
        value: KeyStates,
    ) -> tuple[HeadsKey, HeadsValue]:
        """The projected keys and values of every head. Decoding caches them."""
        if key.size(-2) != value.size(-2):
            problem = f"{key.size(-2)} keys and {value.size(-2)} values"
            raise ValueError(f"{problem}; each key needs its value")
        # (batch, heads, keys, d_k) and (batch, heads, keys, d_v)
        heads_key = self._split(self.key_projection(key))
        heads_value = self._split(self.value_projection(value))
        return heads_key, heads_value

    def attend(
        self,
        query: QueryStates,
        heads_key: HeadsKey,
        heads_value: HeadsValue,
        mask: Mask | None = None,
    ) -> QueryStates:
        """The rest of forward, from keys and values projected already."""
        # (batch, heads, queries, d_k)
        heads_query = self._split(self.query_projection(query))
        watch = watcher()
        arrays = heads_query, heads_key, heads_value, mask
        if watch or formula_is_faster(heads_query, heads_key):
            heads, weights = scaled_dot_product_attention(*arrays)
            if watch:
                watch(self, weights.detach())
        else:
            if mask is not None:
                queries = heads_query.shape[:-1]
                check_mask(mask, torch.Size((*queries, heads_key.size(-2))))
            # Equation (1) in one kernel, which never stores the weights.
            heads = F.scaled_dot_product_attention(*arrays)
        # (batch, queries, heads · d_v), then (batch, queries, d_model)
        concatenated = heads.transpose(1, 2).flatten(2)
        return self.output_projection(concatenated)

    def _split(
        self,
        states: Float[Tensor, "batch length width"],
    ) -> Float[Tensor, "batch heads length width_per_head"]:
        return states.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


Watch = Callable[[MultiHeadAttention, Tensor], None]
_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watch_attention(watch: Watch) -> Iterator[None]:
    """Call watch(attention, weights) at every multi-head attention inside the `with` block, in this thread alone.

    The weights, (batch, heads, queries, keys), carry no gradient. Blocks nest: each one is called. A model that
    torch.compile has compiled calls none.
    """
    outer = _watch.get()

    def watch_both(attention: MultiHeadAttention, weights: Tensor) -> None:
        watch(attention, weights)
        if outer:
            outer(attention, weights)

    _watch.set(watch_both)
    try:
        yield
    finally:
        _watch.set(outer)


def watcher() -> Watch | None:
    """Who wants to see the weights in this thread; None: nobody."""
    # torch.compile cannot look up a context variable.
    return None if torch.compiler.is_dynamo_compiling() else _watch.get()


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
