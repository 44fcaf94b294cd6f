"""The decoder with a key–value cache: a step passes the newest token alone through the layers."""

from typing import cast

from jaxtyping import Float, Int
from torch import Tensor

from .layers import DecoderLayer
from .masks import padding_mask
from .shapes import CrossMask, HeadsKey, HeadsValue, Memory, PastMask, QueryStates, SourceIds
from .transformer import Transformer


class LayerCache:
    """The keys and values that a decoder layer has computed so far.

    Those of the memory are computed once. Those of the target so far come step by step, into room allocated once.
    """

    def __init__(self, memory_key: HeadsKey, memory_value: HeadsValue, room: int):
        batch, heads, _, d_k = memory_key.shape
        self.memory = (memory_key.contiguous(), memory_value.contiguous())  # every step reads them
        self.key = memory_key.new_empty(batch, heads, room, d_k)
        self.value = memory_key.new_empty(batch, heads, room, memory_value.size(-1))
        self.length = 0

    def append(self, key: HeadsKey, value: HeadsValue) -> tuple[Tensor, Tensor]:
        """Append the new keys and values; return all so far."""
        start, self.length = self.length, self.length + key.size(2)
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

    Each sentence has room for `beams` candidates side by side.

    Args:
        memory: of the source.
        limit: most steps.
    """

    def __init__(self, model: Transformer, source: SourceIds, memory: Memory, limit: int, beams: int = 1):
        self.model = model
        self.source_mask: CrossMask | None = padding_mask(source, model.config.pad_id)
        self.positions: Float[Tensor, "limit d_model"] = model.positions(memory.new_empty(1, limit, memory.size(-1)))
        self.decoder_layers = [cast(DecoderLayer, layer) for layer in model.decoder.layers]
        attentions = [layer.cross_attention for layer in self.decoder_layers]
        self.layers = [LayerCache(*a.keys_and_values(memory, memory), room=limit * beams) for a in attentions]
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
        if self.source_mask is not None:
            self.source_mask = self.source_mask[rows]
        for layer in self.layers:
            layer.keep(rows)


def start_decoding(model: Transformer, source: SourceIds, limit: int, beams: int = 1) -> DecoderCache:
    """Encode the source, and make room for `limit` steps of `beams` candidates each.

    A model of `fast_cache.speed_up_decoding` decodes with the quicker cache of fast_cache.py.

    Raises:
        ValueError: as Transformer.encode does.
    """
    if model.decoder_cache is not None:
        return model.decoder_cache(model, source, limit, beams)
    return DecoderCache(model, source, model.encode(source), limit, beams)
