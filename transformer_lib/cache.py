"""The decoder with a key–value cache: a step passes the newest token alone through the layers."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from .layers import AddAndNorm, DecoderLayer
from .masks import padding_mask
from .multi_head_attention import MultiHeadAttention
from .own_parts import are_untouched
from .positional_encoding import LearnedPositions, SinusoidalPositions
from .shapes import CrossMask, HeadsKey, HeadsValue, Memory, PastMask, QueryStates, SourceIds
from .transformer import Decoder, Transformer, parts


class LayerCache:
    """The keys and values that a decoder layer has computed so far.

    Those of the memory are computed once. Those of the target so far come step by step, into room that doubles when it
    is full: at first for 16 steps.
    """

    def __init__(self, memory_key: HeadsKey, memory_value: HeadsValue):
        self.memory = (memory_key.contiguous(), memory_value.contiguous())  # every step reads them
        self.key, self.value = memory_key[:, :, :0], memory_value[:, :, :0]
        self.length = 0

    def append(self, key: HeadsKey, value: HeadsValue) -> tuple[Tensor, Tensor]:
        """Append the new keys and values; return all so far."""
        start, self.length = self.length, self.length + key.size(2)
        if self.length > self.key.size(2):
            more = (0, 0, 0, max(start, 16 * key.size(2)))
            self.key, self.value = F.pad(self.key, more), F.pad(self.value, more)
        self.key[:, :, start : self.length] = key
        self.value[:, :, start : self.length] = value
        return self.key[:, :, : self.length], self.value[:, :, : self.length]

    def keep(self, rows: Tensor) -> None:
        """Drop all other sentences of the batch."""
        self.memory = (self.memory[0][rows], self.memory[1][rows])
        self.key, self.value = self.key[rows], self.value[rows]


def layer_step(
    layer: DecoderLayer,
    states: QueryStates,
    cache: LayerCache,
    target_mask: PastMask | None,
    source_mask: CrossMask | None,
) -> QueryStates:
    """Run one decoder layer for the newest token. The cache holds all earlier keys and values, and the memory's."""

    def look_back(x: Tensor) -> Tensor:
        past = cache.append(*layer.self_attention.keys_and_values(x, x))
        return layer.self_attention.attend(x, *past, target_mask)

    def look_at_memory(x: Tensor) -> Tensor:
        return layer.cross_attention.attend(x, *cache.memory, source_mask)

    return layer.sublayers(states, look_back, look_at_memory)


class DecoderCache:
    """What stays from one decoding step to the next, and the step.

    Args:
        memory: of the source.
        limit: most steps.
    """

    def __init__(self, model: Transformer, source: SourceIds, memory: Memory, limit: int):
        self.model = model
        self.source_mask: CrossMask = padding_mask(source, model.config.pad_id)
        self.positions: Float[Tensor, "limit d_model"] = model.positions(memory.new_empty(1, limit, memory.size(-1)))
        self.decoder_layers = [cast(DecoderLayer, layer) for layer in model.decoder.layers]
        attentions = [layer.cross_attention for layer in self.decoder_layers]
        self.layers = [LayerCache(*a.keys_and_values(memory, memory)) for a in attentions]
        self.length = 0  # steps done

    def next_logits(
        self, tokens: Int[Tensor, "batch beams"], mask: PastMask | None = None
    ) -> Float[Tensor, "batch beams vocabulary"]:
        """Logits after one more token of each candidate; equal to the last ones of `decode` without its repetition.

        All candidates of a sentence stand at the same position, so they are the queries of one attention.

        Args:
            tokens: the newest token of each candidate.
            mask: (batch, 1, beams, beams so far), True where a candidate descends from that cell of the cache;
                None with one candidate, which descends from every cell.
        """
        model = self.model
        states = model.embed(tokens, model.embedding, self.positions[self.length])
        for layer, cache in zip(self.decoder_layers, self.layers, strict=True):
            states = layer_step(layer, states, cache, mask, self.source_mask)
        self.length += 1
        return model.logits(model.decoder.norm(states))

    def keep(self, rows: Tensor) -> None:
        """Drop all other sentences of the batch."""
        self.source_mask = self.source_mask[rows]
        for layer in self.layers:
            layer.keep(rows)


class Rereading:
    """The step of a model with parts of the reader's own: it reads the whole text again, by `model(source, text)`."""

    def __init__(self, model: Transformer, source: SourceIds):
        self.model, self.source = model, source
        self.cells = source.new_empty(len(source), 0)  # (batch, cells): the tokens of all steps, beam beside beam
        self.length = 0

    def next_logits(
        self, tokens: Int[Tensor, "batch beams"], mask: PastMask | None = None
    ) -> Float[Tensor, "batch beams vocabulary"]:
        """As DecoderCache.next_logits."""
        self.cells, self.length = torch.cat([self.cells, tokens], dim=1), self.length + 1
        texts = self.cells
        if mask is not None:  # of each candidate one cell a step
            texts = texts.unsqueeze(1).expand(mask[:, 0].shape)[mask[:, 0]].view(-1, self.length)
        sources = self.source.repeat_interleave(tokens.size(1), dim=0)
        logits = self.model(sources, texts)[:, -1].clone()  # the caller may change them; a hook may keep the model's
        return logits.unflatten(0, tokens.shape)

    def keep(self, rows: Tensor) -> None:
        """Drop all other sentences of the batch."""
        self.source, self.cells = self.source[rows], self.cells[rows]


def start_decoding(model: Transformer, source: SourceIds, limit: int) -> DecoderCache | Rereading:
    """Encode the source, and be ready for at most `limit` steps.

    A step computes what `model(source, text)` does. It has no cache, and reads the text so far again, where takes_cache
    says so. A norm, a feed-forward network, a projection or an embedding may be any module that acts position by
    position: the cache shows it one token at a time.

    Raises:
        ValueError: as Transformer.encode does.
    """
    model = getattr(model, "_orig_mod", model)  # of a compiled model, the model
    if takes_cache(model):
        return DecoderCache(model, source, model.encode(source), limit)
    return Rereading(model, source)


def takes_cache(model: Any) -> bool:
    """Whether a step with the cache equals `model(source, text)`.

    The model, its positions and its decoder's layers, attentions and add & norms are the library's, and nobody has
    touched a module outside the encoder.
    """
    if not isinstance(model, Transformer):
        return False
    layers: list[Any] = list(getattr(model.decoder, "layers", ()))
    places: list[tuple[nn.Module, Any]] = [(layer, DecoderLayer) for layer in layers]
    places += [(model.decoder, Decoder), (model.positions, SinusoidalPositions | LearnedPositions)]
    inside = [part for layer in layers for name, part in layer.named_children() if name != "feed_forward"]
    places += [(part, MultiHeadAttention | AddAndNorm) for part in inside]
    path = [m for part in model.children() if part is not model.encoder for m in parts(part)]
    return all(isinstance(part, kind) for part, kind in places) and are_untouched([model, *path])
