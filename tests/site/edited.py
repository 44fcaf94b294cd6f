"""A trained model with other weights: what the switches of the page must compute, by a route of its own."""

import copy
import json
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from browser import ROOT
from torch import Tensor

from transformer_lib import Transformer, sinusoids
from transformer_lib.attention_maps import heads_removed
from transformer_lib.data import load_pairs
from transformer_lib.positional_encoding import SinusoidalPositions
from transformer_lib.transformer import named_attentions


@dataclass(frozen=True)
class Switches:
    """What is turned: heads that are off, the factor of the scores, the factor of the positions."""

    off: tuple[tuple[str, int], ...] = ()
    scores: float = 1.0
    positions: float = 1.0

    def gates(self, model: Transformer) -> dict[str, list[float]]:
        """A gate for each head under the name of its attention, as the page has them."""
        heads = range(model.config.num_heads)
        return {name: [float((name, head) not in self.off) for head in heads] for name, _ in named_attentions(model)}


class Stretched(SinusoidalPositions):
    """Sinusoids, all of them times a factor."""

    def __init__(self, d_model: int, factor: float):
        super().__init__(d_model)
        self.factor = factor

    def forward(self, states: Tensor) -> Tensor:
        return self.factor * sinusoids(states.size(1), self.d_model)


@contextmanager
def edited(model: Transformer, switches: Switches) -> Iterator[Transformer]:
    """A copy: blocks of W^O set to zero, W^Q times the factor of the scores, another module for the positions."""
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        for _, attention in named_attentions(model):
            attention.query_projection.weight *= switches.scores
    model.positions = Stretched(model.config.d_model, switches.positions)
    with heads_removed(model, switches.off):
        yield model


def settings(model: Transformer) -> Iterable[Switches]:
    """Every switch: each head alone, each attention whole, each factor, and some together."""
    heads = [(name, head) for name, _ in named_attentions(model) for head in range(model.config.num_heads)]
    yield from (Switches(off=(one,)) for one in heads)
    for name, _ in named_attentions(model):
        yield Switches(off=tuple(one for one in heads if one[0] == name))
    for factor in (0.0, 0.25, 0.5, 2.0):
        yield Switches(scores=factor)
        yield Switches(positions=factor)
    yield Switches(scores=model.config.d_k**0.5)
    yield Switches(off=(heads[1], heads[-3]), scores=0.5, positions=0.25)


def sentences(name: str, count: int) -> list[str]:
    """Sources of the kind that a translator of the package was trained on."""
    if name.startswith("number_words"):
        pairs = load_pairs("number_words", "test", "en", "de")
        return [source for source, _ in random.Random(0).sample(pairs, count)]
    recorded = json.loads((ROOT / "experiments" / "results" / f"{name}.json").read_text("utf-8"))
    return [example["source"] for example in recorded["examples"]][:count]
