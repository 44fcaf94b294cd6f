"""MarianMTModel of Hugging Face's transformers."""

import torch
from torch import Tensor
from transformers import GenerationConfig, MarianConfig, MarianMTModel

from benchmarks.peers import TorchPeer
from benchmarks.work import BOS, EOS, PAD, PaddedBatch, Shape


def marian(shape: Shape) -> MarianMTModel:
    """The model with fresh weights, in the paper's form."""
    sizes = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", shape.num_layers),
            ("attention_heads", shape.num_heads),
            ("ffn_dim", shape.d_ff),
        )
    }
    config = MarianConfig(
        vocab_size=shape.vocabulary,
        d_model=shape.d_model,
        max_position_embeddings=256,
        dropout=shape.p_drop,
        activation_function="relu",
        scale_embedding=True,
        init_std=shape.d_model**-0.5,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        **sizes,
    )
    return MarianMTModel(config)


class Peer(TorchPeer):
    """Its own loss has no smoothing, so the loss is PyTorch's; generation is its own."""

    def build(self) -> MarianMTModel:
        """Fresh weights."""
        return marian(self.shape)

    def logits(self, batch: PaddedBatch) -> Tensor:
        """Without a cache, which training does not use."""
        return self.model(
            input_ids=batch.source,
            attention_mask=batch.source != PAD,
            decoder_input_ids=batch.target_input,
            use_cache=False,
        ).logits

    def greedy(self, source: Tensor, length: int) -> list[list[int]]:
        """A beam of one."""
        return self.beam(source, length, 1)

    @torch.inference_mode()
    def beam(self, source: Tensor, length: int, beam_size: int) -> list[list[int]]:
        """min_new_tokens forbids `<eos>`; padding is forbidden by name."""
        settings = GenerationConfig(
            num_beams=beam_size,
            do_sample=False,
            use_cache=True,
            min_new_tokens=length,
            max_new_tokens=length,
            length_penalty=0.6 if beam_size > 1 else 1.0,
            suppress_tokens=[PAD],
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
        )
        ids = self.model.generate(source, attention_mask=source != PAD, generation_config=settings)
        return ids[:, 1:].tolist()
