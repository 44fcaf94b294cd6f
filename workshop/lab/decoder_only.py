"""The model that is left when the decoder goes: one stack that reads a text and writes it on."""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from transformer_lib import causal_mask, padding_mask
from transformer_lib.shapes import Logits, PlacedLogits, Places, TargetIds


class DecoderOnly(nn.Module):
    """One stack that predicts each next token of a text.

    The encoder's layers under a causal mask. The sentence to translate
    stands in the text itself: "forty seven = sieben und vierzig".

    Args:
        model: a Transformer, whose decoder is removed.
    """

    def __init__(self, model: Any):
        super().__init__()
        self.config, self.model = model.config, model
        del model.decoder

    def forward(
        self, _source: Any, text: TargetIds, at: Places | None = None
    ) -> Logits | PlacedLogits:
        """The logits of the token after each position of the text.

        The arguments are those of Transformer, so `train` takes this model.
        """
        causal = causal_mask(text.size(1), device=text.device)
        visible = causal & padding_mask(text, self.config.pad_id)
        embedded = self.model.embed(text, self.model.embedding)
        states = self.model.encoder(embedded, visible)
        return self.model.logits(
            states if at is None else states.flatten(0, 1)[at]
        )

    @torch.no_grad()
    def write_on(
        self, text: TargetIds, limit: int = 30
    ) -> Int[Tensor, "batch longer"]:
        """The texts, all of one length, with up to `limit` tokens more."""
        self.eval()
        ended = torch.zeros(len(text), 1, dtype=torch.bool)
        while limit and not ended.all():
            best = self(None, text)[:, -1:].argmax(dim=-1)  # (batch, 1)
            best = best.masked_fill(ended, self.config.pad_id)
            text = torch.cat([text, best], dim=1)
            ended, limit = ended | (best == self.config.eos_id), limit - 1
        return text
