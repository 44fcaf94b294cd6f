"""Several heads of attention side by side."""

from jaxtyping import Float
from torch import Tensor, nn

from . import fast
from .config import check_positive
from .shapes import HeadsKey, HeadsValue, KeyStates, Mask, QueryStates


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
        # Equation (1) in each head: (batch, heads, queries, d_v)
        heads = fast.attend(self, heads_query, heads_key, heads_value, mask)
        # (batch, queries, heads · d_v), then (batch, queries, d_model)
        concatenated = heads.transpose(1, 2).flatten(2)
        return self.output_projection(concatenated)

    def _split(
        self,
        states: Float[Tensor, "batch length width"],
    ) -> Float[Tensor, "batch heads length width_per_head"]:
        return states.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
