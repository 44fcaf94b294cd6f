"""XTransformer of x-transformers."""

import math

import torch
from torch import Tensor, nn
from x_transformers import XTransformer

from benchmarks.peers import TorchPeer
from benchmarks.work import BOS, EOS, PAD, PaddedBatch

LONGEST = 256


class Peer(TorchPeer):
    """Its own loss has no smoothing, so the loss is PyTorch's; generation is its own."""

    def build(self) -> XTransformer:
        """Its constructor cannot tie the output to the embedding; sharing the matrix afterwards can."""
        shape, sizes = self.shape, {}
        for side in ("enc", "dec"):
            sizes |= {
                f"{side}_num_tokens": shape.vocabulary,
                f"{side}_max_seq_len": LONGEST,
                f"{side}_depth": shape.num_layers,
                f"{side}_heads": shape.num_heads,
                f"{side}_attn_dim_head": shape.d_model // shape.num_heads,
                f"{side}_ff_mult": shape.d_ff / shape.d_model,
                f"{side}_attn_flash": True,
                f"{side}_emb_dropout": shape.p_drop,
                f"{side}_ff_dropout": shape.p_drop,
            }
        model = XTransformer(dim=shape.d_model, tie_token_emb=True, pad_value=PAD, **sizes)
        net = model.decoder.net
        net.to_logits.weight = net.token_emb.emb.weight
        nn.init.normal_(net.token_emb.emb.weight, std=shape.d_model**-0.5)
        return model

    def logits(self, batch: PaddedBatch) -> Tensor:
        """Encoder and decoder as XTransformer calls them."""
        mask = batch.source != PAD
        memory = self.model.encoder(batch.source, mask=mask, return_embeddings=True)
        return self.model.decoder.net(batch.target_input, context=memory, context_mask=mask)

    def start_decoding(self) -> None:
        """Without an eos_token it always generates to the end; a bias keeps `<eos>` and padding away."""
        super().start_decoding()
        net = self.model.decoder.net
        bias = torch.zeros(self.shape.vocabulary)
        bias[[PAD, EOS]] = -math.inf
        net.to_logits.bias = nn.Parameter(bias)

    @torch.inference_mode()
    def greedy(self, source: Tensor, length: int) -> list[list[int]]:
        """Temperature 0 is the likeliest token; the cache is on by default."""
        start = torch.full((len(source), 1), BOS, device=source.device)
        return self.model.generate(source, start, length, mask=source != PAD, temperature=0.0).tolist()
