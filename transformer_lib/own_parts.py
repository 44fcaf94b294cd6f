"""Parts of the reader's own in a model: whether there are any, and whether the weights alone would give it again."""

import torch
from torch import nn

from .embeddings import TokenEmbedding
from .layers import AddAndNorm, DecoderLayer, EncoderLayer, FeedForward
from .multi_head_attention import MultiHeadAttention
from .positional_encoding import LearnedPositions, SinusoidalPositions
from .transformer import Decoder, Encoder, Transformer, parts

ATTENTION = (MultiHeadAttention, AddAndNorm, FeedForward)
KINDS = (Transformer, Encoder, Decoder, EncoderLayer, DecoderLayer, *ATTENTION, TokenEmbedding)
# The encoder runs before the first step of decoding, with and without a cache.
ANYBODYS = {"__init__", "encode", "check_source"}
# The methods of each class, as imported.
METHODS = {
    kind: {name: method for name, method in vars(kind).items() if callable(method) and name not in ANYBODYS}
    for kind in (*KINDS, SinusoidalPositions, LearnedPositions)
} | {nn.Module: {"__call__": nn.Module.__call__}}
NAMES = frozenset().union(*METHODS.values())


def are_untouched(modules: list[nn.Module]) -> bool:
    """Whether none has a forward hook or a method of the reader's own."""
    return not any(m._forward_hooks or m._forward_pre_hooks for m in modules) and have_library_methods(modules)


def have_library_methods(modules: list[nn.Module]) -> bool:
    """Whether no subclass, no patch of a class and no object has replaced a method of the library's classes."""
    return all(NAMES.isdisjoint(vars(m)) for m in modules) and all(
        getattr(own, name) is method
        for own in set(map(type, modules))
        for kind, methods in METHODS.items()
        if issubclass(own, kind)
        for name, method in methods.items()
    )


def check_weights_suffice(model: Transformer) -> None:
    """Raise ValueError where the weights, in a Transformer of the same config, would give another function."""
    with torch.device("meta"):
        plain = parts(Transformer(model.config))
    mine = parts(model)
    is_plain = len(mine) == len(plain) and all(map(isinstance, mine, map(type, plain)))
    if not (is_plain and have_library_methods(mine) and type(model).encode is Transformer.encode):
        remedy = "save its state_dict, and load it into a model that you change in the same way"
        raise ValueError(f"the model has parts of your own, which its weights do not tell; {remedy}")
