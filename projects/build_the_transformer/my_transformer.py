"""Your Transformer. Fill in every function that raises NotImplementedError; the order is that of the book's chapters.

The constructors are given, so that everybody's parameters have the same names and the tests can copy weights.
Write the rest with tensor operations; torch.nn.MultiheadAttention, torch.nn.Transformer, their layers and
torch.nn.functional.scaled_dot_product_attention are what the tests compare with, so do not call them.

In every mask True means: this query may look at this key.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The sizes of a model; the defaults are the paper's base model."""

    vocabulary_size: int
    num_layers: int = 6
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    d_k: int = 64
    d_v: int = 64
    p_drop: float = 0.1
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2


Pair = tuple[Sequence[int], Sequence[int]]  # ids of a source and of its target


# ── Task 1: sequence_to_sequence ──────────────────────────────────────────────────────────────────────────────────────


def shift_right(target: Tensor, bos_id: int) -> Tensor:
    """What the decoder reads while it writes `target`: <bos>, then every token but the last; (batch, length) ids."""
    raise NotImplementedError("task 1: shift_right")


# ── Task 2: attention_as_lookup ───────────────────────────────────────────────────────────────────────────────────────


def look_up(scores: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """A soft lookup: each row of scores becomes weights that add up to 1, and averages the values with them.

    Args:
        scores: (..., queries, keys)
        value: (..., keys, d_v)

    Returns:
        output (..., queries, d_v) and weights (..., queries, keys)
    """
    raise NotImplementedError("task 2: look_up")


# ── Task 3: self_attention ────────────────────────────────────────────────────────────────────────────────────────────


def self_attention(states: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor) -> tuple[Tensor, Tensor]:
    """The words of one sentence look each other up, by plain dot products.

    Args:
        states: (words, d), a row for each word
        w_query: (d, d_k)
        w_key: (d, d_k)
        w_value: (d, d)

    Returns:
        states plus what each word finds (words, d), and weights (words, words)
    """
    raise NotImplementedError("task 3: self_attention")


# ── Task 4: attention ─────────────────────────────────────────────────────────────────────────────────────────────────


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Equation (1): softmax(query keyᵀ / √d_k) value.

    Args:
        query: (..., queries, d_k)
        key: (..., keys, d_k)
        value: (..., keys, d_v)
        mask: boolean, broadcasts to (..., queries, keys)

    Returns:
        output (..., queries, d_v) and weights (..., queries, keys). A row that may look at no key
        gives zeros in both, never NaN.
    """
    raise NotImplementedError("task 4: scaled_dot_product_attention")


# ── Task 5: multi_head_attention ──────────────────────────────────────────────────────────────────────────────────────


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: num_heads attentions side by side. The matrices of all heads stand side by side in one."""

    def __init__(self, d_model: int, num_heads: int, d_k: int, d_v: int):
        super().__init__()
        self.num_heads = num_heads
        self.query_projection = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.key_projection = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.value_projection = nn.Linear(d_model, num_heads * d_v, bias=False)
        self.output_projection = nn.Linear(num_heads * d_v, d_model, bias=False)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """States (batch, length, d_model) in and out; the mask broadcasts to (batch, heads, queries, keys)."""
        raise NotImplementedError("task 5: MultiHeadAttention.forward")


# ── Task 6: positional_encoding ───────────────────────────────────────────────────────────────────────────────────────


def sinusoids(length: int, d_model: int, base: float = 10000.0) -> Tensor:
    """Section 3.5: (length, d_model); sine in the even columns, cosine in the odd ones."""
    raise NotImplementedError("task 6: sinusoids")


# ── Task 7: embeddings ────────────────────────────────────────────────────────────────────────────────────────────────


class TokenEmbedding(nn.Module):
    """Section 3.4: one matrix turns tokens into vectors, times √d_model, and states into logits."""

    def __init__(self, vocabulary_size: int, d_model: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, length) ids to (batch, length, d_model)."""
        raise NotImplementedError("task 7: TokenEmbedding.forward")

    def logits(self, states: Tensor) -> Tensor:
        """(batch, length, d_model) to (batch, length, vocabulary)."""
        raise NotImplementedError("task 7: TokenEmbedding.logits")


# ── Task 8: layers ────────────────────────────────────────────────────────────────────────────────────────────────────


class FeedForward(nn.Module):
    """Equation (2): max(0, x W_1 + b_1) W_2 + b_2."""

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, states: Tensor) -> Tensor:
        """(batch, length, d_model) in and out."""
        raise NotImplementedError("task 8: FeedForward.forward")


class AddAndNorm(nn.Module):
    """Sections 3.1 and 5.4: LayerNorm(x + Dropout(Sublayer(x)))."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.p_drop)

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """The states after one sub-layer."""
        raise NotImplementedError("task 8: AddAndNorm.forward")


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, each inside add & norm."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.num_heads, config.d_k, config.d_v)
        self.self_attention_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_norm = AddAndNorm(config)

    def forward(self, states: Tensor, source_mask: Tensor) -> Tensor:
        """(batch, source, d_model) in and out."""
        raise NotImplementedError("task 8: EncoderLayer.forward")


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, the feed-forward network."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.num_heads, config.d_k, config.d_v)
        self.self_attention_norm = AddAndNorm(config)
        self.cross_attention = MultiHeadAttention(config.d_model, config.num_heads, config.d_k, config.d_v)
        self.cross_attention_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_norm = AddAndNorm(config)

    def forward(self, states: Tensor, memory: Tensor, target_mask: Tensor, source_mask: Tensor) -> Tensor:
        """States (batch, target, d_model) in and out; memory (batch, source, d_model)."""
        raise NotImplementedError("task 8: DecoderLayer.forward")


# ── Task 9: masks ─────────────────────────────────────────────────────────────────────────────────────────────────────


def causal_mask(length: int) -> Tensor:
    """(length, length): position i may look at positions 0 to i."""
    raise NotImplementedError("task 9: causal_mask")


def padding_mask(tokens: Tensor, pad_id: int) -> Tensor:
    """From (batch, length) ids to (batch, 1, 1, length): True at real tokens."""
    raise NotImplementedError("task 9: padding_mask")


# ── Task 10: encoder_decoder ──────────────────────────────────────────────────────────────────────────────────────────


class Stack(nn.Module):
    """Layers one after the other."""

    def __init__(self, kind: type[nn.Module], config: TransformerConfig):
        super().__init__()
        self.layers = nn.ModuleList(kind(config) for _ in range(config.num_layers))


class Transformer(nn.Module):
    """Figure 1: the whole model. Source and target share one embedding matrix with the output."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocabulary_size, config.d_model)
        self.dropout = nn.Dropout(config.p_drop)
        self.encoder = Stack(EncoderLayer, config)
        self.decoder = Stack(DecoderLayer, config)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)

    def forward(self, source: Tensor, target_input: Tensor) -> Tensor:
        """Logits (batch, target, vocabulary) of the token after each position of target_input."""
        return self.decode(target_input, self.encode(source), source)

    def encode(self, source: Tensor) -> Tensor:
        """(batch, source) ids to the memory (batch, source, d_model)."""
        raise NotImplementedError("task 10: Transformer.encode")

    def decode(self, target_input: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """Logits from the target so far and the memory of `source`, whose padding nobody may look at."""
        raise NotImplementedError("task 10: Transformer.decode")


def count_parameters(config: TransformerConfig) -> int:
    """The trainable parameters of a model of this config, without building it."""
    raise NotImplementedError("task 10: count_parameters")


# ── Task 11: text_to_tensors ──────────────────────────────────────────────────────────────────────────────────────────


def pad_rows(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Sentences of ids as one int64 tensor (sentences, longest), the short ones filled up with pad_id."""
    raise NotImplementedError("task 11: pad_rows")


# ── Task 12: label_smoothing ──────────────────────────────────────────────────────────────────────────────────────────


def label_smoothing_loss(logits: Tensor, target: Tensor, epsilon_ls: float = 0.1, pad_id: int = 0) -> Tensor:
    """Section 5.4: the mean over real target tokens, in nats.

    The smoothed target puts 1 - ε on the right token and spreads ε evenly over the whole vocabulary.
    """
    raise NotImplementedError("task 12: label_smoothing_loss")


# ── Task 13: learning_rate ────────────────────────────────────────────────────────────────────────────────────────────


def learning_rate(step_num: int, d_model: int, warmup_steps: int = 4000) -> float:
    """Equation (3); the first step has the number 1."""
    raise NotImplementedError("task 13: learning_rate")


# ── Task 14: training ─────────────────────────────────────────────────────────────────────────────────────────────────


def fit(model: Transformer, pairs: Sequence[Pair], num_steps: int, warmup_steps: int) -> list[float]:
    """Train with all pairs as one batch: the smoothed loss, and Adam as in section 5.3 with the rate of equation (3).

    Args:
        pairs: ids of source and target, without <bos> and <eos>. Source and target end with <eos>; the decoder reads
            the target shifted right.

    Returns:
        the loss of each step, nats per token
    """
    raise NotImplementedError("task 14: fit")


# ── Task 15: decoding ─────────────────────────────────────────────────────────────────────────────────────────────────


def greedy_decode(model: Transformer, source: Tensor, max_length: int | None = None) -> Tensor:
    """The likeliest next token until <eos>, for a batch of sources.

    Returns:
        ids (batch, generated) without <bos>, with <eos> where it was reached, padding after it. At most
        max_length tokens; None: 50 more than each source has real tokens. The padding id is never chosen.
    """
    raise NotImplementedError("task 15: greedy_decode")


def beam_search(
    model: Transformer, source: Tensor, beam_size: int = 4, alpha: float = 0.6, max_length: int | None = None
) -> Tensor:
    """The hypothesis with the best log-probability / ((5 + length) / 6)^alpha; shapes as greedy_decode.

    The length counts <eos>. A hypothesis that reaches max_length without <eos> counts as it stands.
    """
    raise NotImplementedError("task 15: beam_search")


# ── Task 16: evaluation ───────────────────────────────────────────────────────────────────────────────────────────────


def perplexity(model: Transformer, pairs: Sequence[Pair]) -> float:
    """exp(nats per real target token), <eos> counted, without smoothing and without dropout; pairs as for fit."""
    raise NotImplementedError("task 16: perplexity")
