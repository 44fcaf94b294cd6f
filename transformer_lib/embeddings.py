"""Tokens to vectors and back, through one matrix."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from .config import check_positive


class TokenEmbedding(nn.Module):
    """A row per token, times √d_model; the same rows turn states into logits.

    Source: section 3.4 [embed].
    """

    def __init__(self, vocabulary_size: int, d_model: int):
        super().__init__()
        check_positive(vocabulary_size=vocabulary_size, d_model=d_model)
        self.weight = nn.Parameter(torch.empty(vocabulary_size, d_model))
        # Rows of length about 1: the product with √d_model
        # then has components of size about 1.
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
    ) -> Float[Tensor, "batch length d_model"]:
        """The vectors of these token ids, scaled."""
        return F.embedding(tokens, self.weight) * math.sqrt(self.weight.size(1))

    def logits(
        self,
        states: Float[Tensor, "*batch d_model"],
        bias: Float[Tensor, " vocabulary"] | None = None,
    ) -> Float[Tensor, "*batch vocabulary"]:
        """How well each token fits each state: the map before the softmax."""
        return F.linear(states, self.weight, bias)


def check_tensor(name: str, tokens: Tensor) -> None:
    """Raise TypeError for a list of ids, or whatever is no tensor."""
    if not isinstance(tokens, Tensor):
        remedy = f"give a tensor of int64: torch.tensor({name}), after pad_rows where sentences differ in length"
        raise TypeError(f"{name} is of type {type(tokens).__name__}; {remedy}")


def check_ids(name: str, tokens: Tensor, vocabulary_size: int, dim: int = 2) -> None:
    """Raise ValueError unless these are integer ids of the vocabulary; the message gives the first bad one's place.

    Raises:
        TypeError: what is no tensor.
    """
    check_tensor(name, tokens)
    if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        raise ValueError("torch.jit.trace would keep the lengths of this one example; use torch.export.export")
    if tokens.dim() != dim or tokens.dtype != torch.int64:
        raise ValueError(
            f"{name} has shape {tuple(tokens.shape)} and dtype {tokens.dtype}; "
            f"token ids have {dim} {'axis' if dim == 1 else 'axes'} and dtype torch.int64"
        )
    if tokens.is_meta:  # has no values
        return
    bad = (tokens < 0) | (tokens >= vocabulary_size)
    if bad.any():
        place = bad.nonzero()[0].tolist()
        raise ValueError(
            f"{name}{place} = {tokens[tuple(place)].item()} is not in the vocabulary: "
            f"ids run from 0 to {vocabulary_size - 1}"
        )
