"""Decoding as in cache.py, faster: what a profile paid for. A test shows it equal to the plain form.

A translator that is loaded has it; another model gets it by `speed_up_decoding`.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .attention import MultiHeadAttention, scaled_dot_product_attention
from .cache import DecoderCache, LayerCache
from .embeddings import TokenEmbedding
from .fast import attention
from .fast_stacks import UnpaddedEncoder, is_plain
from .layers import DecoderLayer
from .shapes import Attended, CrossMask, Key, Mask, Memory, PastMask, Query, SourceIds, Value
from .transformer import Encoder, Transformer

# With several threads PyTorch's kernel takes longer than the formula for so few queries in so many sentences.
FEW_QUERIES, MANY_SENTENCES = range(2, 6), 8
# Measured with torch 2.13 and float32: a product of up to FEW_ROWS takes as long with two threads as with one; from
# MANY_ROWS on, the logits are quicker as the transposed product of the transposed factors.
FEW_ROWS, MANY_ROWS = 4, 16


def speed_up_decoding(model: Transformer) -> None:
    """Let the model encode without padding and decode by PackedCache, in place.

    The matrices that widen their input are stored column by column from now on, in the same shapes. A step of decoding
    multiplies every matrix by a few rows and takes as long as reading the matrix does; in this order, half as long.
    """
    for weight in model.parameters():
        if weight.dim() == 2 and weight.size(0) >= weight.size(1):
            weight.data = weight.data.t().contiguous().t()
    for part in model.decoder.modules():
        if isinstance(part, MultiHeadAttention):
            part.kernel = attention_of_candidates
    model.decoder_cache = packed_cache
    if type(model.encoder) is Encoder:
        model.encoder = UnpaddedEncoder(model.encoder)


def packed_cache(model: Transformer, source: SourceIds, limit: int, beams: int = 1) -> DecoderCache:
    """A PackedCache where its products are all that the decoder computes, else the plain DecoderCache.

    It cannot reproduce classes of the reader's own, hooks, recorded weights, dropout, gradients, pre-norm and biases of
    the attention.
    """
    embedding = model.own_output_embedding or model.embedding
    known = type(model) is Transformer and type(embedding) is TokenEmbedding and is_plain(model.decoder)
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    paper = model.config.norm_order == "post" and not model.config.attention_bias
    packs = known and not hooked and paper and not model.decoder.training and not torch.is_grad_enabled()
    cache = PackedCache if packs else DecoderCache
    return cache(model, source, model.encode(source), limit, beams)


def attention_of_candidates(query: Query, key: Key, value: Value, mask: Mask | None = None) -> Attended:
    """Equation (1), written out for a beam's candidates in many sentences, else as in fast.py."""
    if several_threads(query) and query.size(-2) in FEW_QUERIES and len(query) >= MANY_SENTENCES:
        return scaled_dot_product_attention(query, key, value, mask)[0]
    return attention(query, key, value, mask)


def several_threads(states: Tensor) -> bool:
    """Whether several threads of a processor compute with these numbers."""
    return not torch.compiler.is_compiling() and states.device.type == "cpu" and torch.get_num_threads() > 1


def product(states: Tensor, matrix: Tensor, added: Tensor | None = None) -> Tensor:
    """states · matrix + added. Of several threads, two read half of the matrix each where there are few rows.

    Half precision and an odd number of inputs are not split.
    """
    splits = len(states) <= FEW_ROWS and len(matrix) % 2 == 0 and states.dtype in (torch.float32, torch.float64)
    if not splits or not several_threads(states):
        return states @ matrix if added is None else torch.addmm(added, states, matrix)
    # (2, rows, inputs / 2) times (2, inputs / 2, outputs)
    halves = states.view(len(states), 2, -1).transpose(0, 1), matrix.view(2, -1, matrix.size(1))
    first, second = torch.bmm(*halves)
    total = first + second
    return total if added is None else total.add_(added)


class PackedCache(DecoderCache):
    """The step of DecoderCache in fewer and larger operations.

    Query, key and value come from one product, and the last product of a sub-layer adds its input. The candidates of
    all sentences are the rows of one matrix. At the sizes of a sentence, to start an operation takes longer than to
    compute it, but for the products, which read the weights.
    """

    def __init__(self, model: Transformer, source: SourceIds, memory: Memory, limit: int, beams: int = 1):
        super().__init__(model, source, memory, limit, beams)
        if self.source_mask is not None and self.source_mask.all():
            self.source_mask = None  # no padding to hide
        self.packed = [PackedLayer(*pair) for pair in zip(self.decoder_layers, self.layers, strict=True)]
        embedding = model.own_output_embedding or model.embedding
        self.to_logits, self.bias = embedding.weight.t(), model.output_bias  # (d_model, vocabulary), (vocabulary)

    def next_logits(
        self, tokens: Int[Tensor, "batch beams"], mask: PastMask | None = None
    ) -> Float[Tensor, "batch beams vocabulary"]:
        """As DecoderCache.next_logits."""
        states = (self.model.embedding(tokens) + self.positions[self.length]).flatten(0, 1)
        for layer in self.packed:
            states = layer.step(states, tokens.size(1), mask, self.source_mask)
        self.length += 1
        return self.logits(self.model.decoder.norm(states)).view(*tokens.shape, -1)

    def logits(self, states: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows vocabulary"]:
        """As Transformer.logits."""
        if len(states) < MANY_ROWS or not several_threads(states):
            return product(states, self.to_logits, self.bias)
        bias = None if self.bias is None else self.bias.unsqueeze(1)
        return product(self.to_logits.t(), states.t(), bias).t()


class PackedLayer:
    """The weights of a decoder layer in the form in which a PackedCache multiplies by them, and the layer's cache."""

    def __init__(self, layer: DecoderLayer, cache: LayerCache):
        own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
        projections = [own.query_projection, own.key_projection, own.value_projection]
        self.widths = [projection.out_features for projection in projections]
        # (d_model, heads · width), side by side
        self.query_key_value = torch.cat([projection.weight.t() for projection in projections], dim=1)
        self.own_kernel, self.own_output = own.kernel, own.output_projection.weight.t()
        self.cross_query = cross.query_projection.weight.t()
        self.cross_kernel, self.cross_output = cross.kernel, cross.output_projection.weight.t()
        self.inner, self.inner_bias = network.inner.weight.t(), network.inner.bias
        self.outer, self.outer_bias = network.outer.weight.t(), network.outer.bias
        self.activation, self.num_heads, self.cache = network.activation, own.num_heads, cache
        norms = [layer.self_attention_norm.norm, layer.cross_attention_norm.norm, layer.feed_forward_norm.norm]
        self.norms = [(norm.normalized_shape, norm.weight, norm.bias, norm.eps) for norm in norms]

    def step(
        self,
        states: Tensor,
        beams: int,
        mask: PastMask | None,
        source_mask: CrossMask | None,
    ) -> Tensor:
        """The three sub-layers on states of shape (batch · beams, d_model)."""
        rows = len(states)
        split = (rows // beams, beams, self.num_heads, -1)
        projected = product(states, self.query_key_value).split(self.widths, dim=-1)
        # (batch, heads, beams, width of a head)
        query, key, value = (part.view(split).transpose(1, 2) for part in projected)
        past = self.cache.append(key, value)
        heads = self.own_kernel(query, *past, mask).transpose(1, 2)
        states = product(heads.reshape(rows, -1), self.own_output, states)
        states = torch.layer_norm(states, *self.norms[0])

        query = product(states, self.cross_query).view(split).transpose(1, 2)
        heads = self.cross_kernel(query, *self.cache.memory, source_mask)
        heads = heads.transpose(1, 2).reshape(rows, -1)
        states = product(heads, self.cross_output, states)
        states = torch.layer_norm(states, *self.norms[1])

        inner = self.activation(product(states, self.inner, self.inner_bias))
        states = product(inner, self.outer, states + self.outer_bias)
        return torch.layer_norm(states, *self.norms[2])
