"""The model that is left when the decoder goes: one stack that reads a text and writes it on."""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from transformer_lib import causal_mask, padding_mask
from transformer_lib.shapes import Logits, TargetIds


class DecoderOnly(nn.Module):
    """One stack that predicts each next token of a text.

    It is the encoder under a causal mask. The sentence to translate stands in
    the text itself: "forty seven = sieben und vierzig".

    Args:
        model: a Transformer, whose decoder is removed.
    """

    def __init__(self, model: Any):
        super().__init__()
        self.config, self.model = model.config, model
        del model.decoder

    def forward(
        self,
        source: Any,
        text: TargetIds,
    ) -> Logits:
        """The logits of the token after each position of the text.

        The arguments are Transformer's, so that `train` takes this model, too;
        source is not read.
        """
        causal = causal_mask(text.size(1), device=text.device)
        visible = causal & padding_mask(text, self.config.pad_id)
        embedded = self.model.embed(text, self.model.embedding)
        states = self.model.encoder(embedded, visible)
        return self.model.logits(states)

    @torch.no_grad()
    def write_on(
        self,
        text: TargetIds,
        limit: int = 30,
    ) -> Int[Tensor, "batch longer"]:
        """The texts, all of one length, and their likeliest next tokens.

        Ends where each has an `<eos>`; what follows it means nothing.
        """
        self.eval()
        ended = torch.zeros(len(text), 1, dtype=torch.bool)
        for _ in range(limit):
            newest = self(None, text)[:, -1:].argmax(dim=-1)  # (batch, 1)
            text = torch.cat([text, newest], dim=1)
            ended |= newest == self.config.eos_id
            if ended.all():
                break
        return text
