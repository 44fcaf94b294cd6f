"""torch.nn.Transformer inside the translator that its users write around it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers import TorchPeer
from benchmarks.work import BOS, EOS, PAD, PaddedBatch, Shape

LONGEST = 256


class Translator(nn.Module):
    """Embedding, sinusoids, nn.Transformer and the embedding again."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.d_model)
        nn.init.normal_(self.embedding.weight, std=shape.d_model**-0.5)
        self.transformer = nn.Transformer(
            shape.d_model,
            shape.num_heads,
            shape.num_layers,
            shape.num_layers,
            shape.d_ff,
            shape.p_drop,
            batch_first=True,
        )
        self.dropout = nn.Dropout(shape.p_drop)
        angles = torch.arange(LONGEST)[:, None] / 10000 ** (torch.arange(0, shape.d_model, 2) / shape.d_model)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))

    def embed(self, tokens: Tensor) -> Tensor:
        """Vectors of the tokens at their places."""
        scaled = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.positions[: tokens.size(1)])

    def encode(self, source: Tensor) -> Tensor:
        """The memory; in nn.Transformer's masks True means: do not look."""
        return self.transformer.encoder(self.embed(source), src_key_padding_mask=source == PAD)

    def decode(self, target_input: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """States of the target. Its padding stands at the end, where the causal mask hides it already."""
        length = target_input.size(1)
        mask = torch.ones(length, length, dtype=torch.bool, device=source.device).triu(1)
        return self.transformer.decoder(
            self.embed(target_input), memory, tgt_mask=mask, tgt_is_causal=True, memory_key_padding_mask=source == PAD
        )

    def logits(self, states: Tensor) -> Tensor:
        """Through the embedding's matrix."""
        return F.linear(states, self.embedding.weight)


class Peer(TorchPeer):
    """The base of the ratios."""

    def build(self) -> Translator:
        """Matrices start as nn.Transformer starts them."""
        return Translator(self.shape)

    def logits(self, batch: PaddedBatch) -> Tensor:
        """Of the whole target at once."""
        memory = self.model.encode(batch.source)
        return self.model.logits(self.model.decode(batch.target_input, memory, batch.source))

    @torch.inference_mode()
    def greedy(self, source: Tensor, length: int) -> list[list[int]]:
        """Everything so far through the decoder again at each step; only the last place becomes logits."""
        memory = self.model.encode(source)
        tokens = torch.full((len(source), 1), BOS, device=source.device)
        for _ in range(length):
            logits = self.model.logits(self.model.decode(tokens, memory, source)[:, -1])
            logits[:, [PAD, EOS]] = -math.inf
            tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
        return tokens[:, 1:].tolist()
