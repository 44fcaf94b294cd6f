"""The encoder and the decoder without padding: what a profile paid for. A test shows them equal to the plain ones.

A batch has a rectangle of positions, and a layer computes them all. Tokens meet in the attention alone; everything else
happens to each position by itself. So the layers get the real tokens as one long sentence, and the kernel of each
attention gets the rectangle. `speed_up` and `speed_up_decoding` put these stacks into a model.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from .attention import MultiHeadAttention
from .layers import AddAndNorm, DecoderLayer, EncoderLayer, FeedForward
from .masks import causal_mask
from .shapes import CrossMask, KeyStates, Mask, QueryStates, SelfMask, SourceMask, States
from .transformer import Decoder, Encoder

# Numbers at padding in an array of states from which it pays to take a batch apart; measured at widths of 32 to 256.
WORTH_IT = 100_000


def is_plain(stack: nn.Module) -> bool:
    """Whether weights say all that the stack computes: no class of the reader's own, no hook, no recorded weights."""
    parts = [part for part in stack.modules() if not isinstance(part, nn.Dropout)]
    known = all(type(part) in PARTS for part in parts)
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in stack.modules())
    recorded = any(isinstance(part, MultiHeadAttention) and part.recorder for part in parts)
    return known and not hooked and not recorded


def leaves_padding_out(stack: nn.Module, states: Tensor) -> bool:
    """Whether a stack may compute real tokens alone: on a CPU."""
    return states.device.type == "cpu" and not torch.compiler.is_compiling() and is_plain(stack)


def real_tokens(states: Tensor, mask: Mask | None) -> Bool[Tensor, "batch length"] | None:
    """Where real tokens stand, after a mask of padding, or of padding and the future; without such a mask None.

    Another mask may hide a token whose output is wanted.
    """
    if mask is None:
        return None
    batch, length, _ = states.shape
    if mask.shape == (batch, 1, 1, length):
        return mask[:, 0, 0]
    if mask.shape == (batch, 1, length, length):
        real = mask[:, 0].diagonal(dim1=-2, dim2=-1)  # who may look at itself
        if torch.equal(mask, causal_mask(length, mask.device) & real[:, None, None]):
            return real
    return None


def is_worth_it(states: Tensor, *real: Tensor) -> bool:
    """Whether there is enough padding."""
    return sum(int((~one).sum()) for one in real) * states.size(-1) >= WORTH_IT


class RealTokens:
    """The real tokens of a batch as one long sentence, and back."""

    def __init__(self, real: Bool[Tensor, "batch length"]):
        self.shape = real.shape
        in_a_row = real.flatten()
        self.places = in_a_row.nonzero()[:, 0]  # of the tokens
        # At padding stands the token before it again: copies are faster than zeros, and nobody looks there.
        self.tokens = (in_a_row.cumsum(0) - 1).clamp(min=0)
        # A mask that hides nothing: the kernels have those of the batch.
        self.mask = real.new_ones(1, 1, 1, 1).expand(1, 1, 1, len(self.places))

    def unpad(self, padded: Float[Tensor, "batch length *width"]) -> Float[Tensor, "1 tokens *width"]:
        """The real tokens alone."""
        return padded.flatten(0, 1).index_select(0, self.places).unsqueeze(0)

    def pad(self, tokens: Float[Tensor, "1 tokens *width"]) -> Float[Tensor, "batch length *width"]:
        """The rectangle again; what stands at padding means nothing, and must get no gradient."""
        return tokens.squeeze(0).index_select(0, self.tokens).unflatten(0, self.shape)


@contextmanager
def among_sentences(
    attention: MultiHeadAttention,
    queries: RealTokens,
    keys: RealTokens,
    mask: Mask,
) -> Iterator[None]:
    """Inside the `with` block the attention looks within sentences.

    It is given the real tokens of a batch as one long sentence.
    """
    kernel = attention.kernel

    def padded_kernel(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        _: Mask,
    ) -> Tensor:
        # Kernels take (batch, heads, length, width).
        padded = [
            tokens.pad(heads.transpose(1, 2)).transpose(1, 2)
            for tokens, heads in [(queries, query), (keys, key), (keys, value)]
        ]
        heads = kernel(*padded, mask).transpose(1, 2)
        return queries.unpad(heads).transpose(1, 2)

    attention.kernel = padded_kernel
    try:
        yield
    finally:
        attention.kernel = kernel


class UnpaddedEncoder(Encoder):
    """The encoder; on a CPU it computes real tokens alone."""

    def __init__(self, plain: Encoder):
        nn.Module.__init__(self)
        self.layers, self.norm = plain.layers, plain.norm
        self.train(plain.training)

    def forward(self, states: States, source_mask: SourceMask) -> States:
        """As Encoder.forward, but for what stands at padding."""
        found = real_tokens(states, source_mask) if leaves_padding_out(self, states) else None
        if found is None or not is_worth_it(states, found):
            return super().forward(states, source_mask)
        real = RealTokens(found)
        layers = set(cast(Iterable[EncoderLayer], self.layers))  # two places may share one
        with ExitStack() as kernels:
            for layer in layers:
                kernels.enter_context(among_sentences(layer.self_attention, real, real, source_mask))
            return real.pad(super().forward(real.unpad(states), real.mask))


class UnpaddedDecoder(Decoder):
    """The decoder; in training on a CPU it computes real tokens alone. Else its readers may look at padding, too."""

    def __init__(self, plain: Decoder):
        nn.Module.__init__(self)
        self.layers, self.norm = plain.layers, plain.norm
        self.train(plain.training)

    def forward(
        self,
        states: QueryStates,
        memory: KeyStates,
        target_mask: SelfMask,
        source_mask: CrossMask,
    ) -> QueryStates:
        """As Decoder.forward, but for what stands at padding."""
        may = self.training and leaves_padding_out(self, states)
        in_target = real_tokens(states, target_mask) if may else None
        in_source = real_tokens(memory, source_mask) if may else None
        if in_target is None or in_source is None or not is_worth_it(states, in_target, in_source):
            return super().forward(states, memory, target_mask, source_mask)
        target, source = RealTokens(in_target), RealTokens(in_source)
        layers = set(cast(Iterable[DecoderLayer], self.layers))
        with ExitStack() as kernels:
            for layer in layers:
                kernels.enter_context(among_sentences(layer.self_attention, target, target, target_mask))
                kernels.enter_context(among_sentences(layer.cross_attention, target, source, source_mask))
            tokens = super().forward(target.unpad(states), source.unpad(memory), target.mask, source.mask)
            return target.pad(tokens)


# The parts of a stack whose weights say all that they compute.
PARTS = {
    *(Encoder, UnpaddedEncoder, EncoderLayer, Decoder, UnpaddedDecoder, DecoderLayer),
    *(MultiHeadAttention, FeedForward, AddAndNorm, nn.ModuleList, nn.Linear, nn.LayerNorm, nn.Identity),
}
