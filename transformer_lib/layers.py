"""The sub-layers around attention, and the two layers that the model stacks."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from .config import Activation, TransformerConfig, check_choice, check_positive
from .multi_head_attention import MultiHeadAttention
from .shapes import CrossMask, KeyStates, QueryStates, SelfMask, SourceMask, States

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """Two linear maps with a ReLU between them, the same at every position.

        FFN(x) = max(0, x W_1 + b_1) W_2 + b_2

    Source: equation (2), section 3.3 [eq-2].
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: Activation = "relu",
    ):
        super().__init__()
        check_positive(d_model=d_model, d_ff=d_ff)
        check_choice(Activation, activation=activation)
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]

    def forward(self, states: States) -> States:
        """Each position's vector through the same two maps."""
        return self.outer(self.activation(self.inner(states)))


class AddAndNorm(nn.Module):
    """The connection around a sub-layer: dropout, sum with its input, norm.

        post-norm (the paper): LayerNorm(x + Dropout(Sublayer(x)))
        pre-norm:              x + Dropout(Sublayer(LayerNorm(x)))

    Source: sections 3.1 and 5.4 [post-norm]; dropout, section 5.4 [emb-dropout].
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.p_drop)
        self.pre_norm = config.norm_order == "pre"

    def forward(
        self,
        states: QueryStates,
        sublayer: Callable[[Tensor], Tensor],
    ) -> QueryStates:
        """The states after this sub-layer, in the shape they came in."""
        if self.pre_norm:
            return states + self.dropout(sublayer(self.norm(states)))
        return self.norm(states + self.dropout(sublayer(states)))


def multi_head_attention(config: TransformerConfig) -> MultiHeadAttention:
    """Multi-head attention in the sizes of the config."""
    return MultiHeadAttention(config.d_model, config.num_heads, config.d_k, config.d_v, config.attention_bias)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, each inside add & norm.

    Source: section 3.1, encoder; section 3.2.3, second use [three-uses].
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.self_attention = multi_head_attention(config)
        self.self_attention_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.feed_forward_norm = AddAndNorm(config)

    def forward(self, states: States, source_mask: SourceMask) -> States:
        """One layer further; source_mask is True at real source tokens."""

        def look_around(x: Tensor) -> Tensor:
            return self.self_attention(x, x, x, source_mask)

        states = self.self_attention_norm(states, look_around)
        return self.feed_forward_norm(states, self.feed_forward)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, then the feed-forward network.

    Source: section 3.1, decoder; section 3.2.3, first and third use [three-uses].
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.self_attention = multi_head_attention(config)
        self.self_attention_norm = AddAndNorm(config)
        self.cross_attention = multi_head_attention(config)
        self.cross_attention_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.feed_forward_norm = AddAndNorm(config)

    def forward(
        self,
        states: QueryStates,
        memory: KeyStates,
        target_mask: SelfMask,
        source_mask: CrossMask,
    ) -> QueryStates:
        """One layer further.

        Cross-attention: queries from here, keys and values from the memory.
        """

        def look_back(x: Tensor) -> Tensor:
            return self.self_attention(x, x, x, target_mask)

        def look_at_memory(x: Tensor) -> Tensor:
            return self.cross_attention(x, memory, memory, source_mask)

        return self.sublayers(states, look_back, look_at_memory)

    def sublayers(
        self,
        states: QueryStates,
        look_back: Callable[[Tensor], Tensor],
        look_at_memory: Callable[[Tensor], Tensor],
    ) -> QueryStates:
        """The three sub-layers in order; a step has attentions of its own."""
        states = self.self_attention_norm(states, look_back)
        states = self.cross_attention_norm(states, look_at_memory)
        return self.feed_forward_norm(states, self.feed_forward)
