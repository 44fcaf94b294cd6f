"""The small models that several test files share, with every part that changes the function, and masks."""

from dataclasses import replace

import torch
from torch import nn

from transformer_lib import Transformer, TransformerConfig

TINY = TransformerConfig(vocabulary_size=11, num_layers=1, d_model=8, d_ff=13, num_heads=2, d_k=3, d_v=5, p_drop=0.3)
SOURCE = torch.tensor([[3, 4, 5, 6, 2], [7, 8, 2, 0, 0], [9, 2, 0, 0, 0]])
ATTENTIONS = [  # the keys of recorded weights, of two layers
    *("encoder.0.self", "decoder.0.self", "decoder.0.cross"),
    *("encoder.1.self", "decoder.1.self", "decoder.1.cross"),
]
VARIANTS = [
    {},
    {"num_layers": 2, "norm_order": "pre"},
    {"positions": "learned", "max_positions": 12, "attention_bias": True},
    {"tied_output": False, "output_bias": True, "source_vocabulary_size": 12},
    {"bos_id": 0, "final_norm": True},
]


def model(**changes):
    """The small model with these changes, every weight random: gains and biases too."""
    m = Transformer(replace(TINY, **changes)).double()
    for p in m.parameters():
        p.data += 0.5 * torch.randn_like(p)
    return m


class Around(nn.Module):
    """A module around an attention, whose output it gives so many times."""

    def __init__(self, inner, factor=1):
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, *given):
        return self.factor * self.inner(*given)


def random_mask(*shape):
    """True by chance; each query may look at the first key."""
    mask = torch.rand(*shape) < 0.6
    mask[..., 0] = True
    return mask
