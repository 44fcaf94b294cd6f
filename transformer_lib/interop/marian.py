"""Published Marian translators, as Hugging Face's `MarianMTModel`, as our model."""

import re
from typing import Any

import torch
from torch import Tensor, nn

from ..positional_encoding import sinusoids
from ..transformer import Transformer
from .conversion import converted

# Words in the names of weights: Marian's and ours.
NAMES = {
    "self_attn": "self_attention",
    "encoder_attn": "cross_attention",
    "q_proj": "query_projection",
    "k_proj": "key_projection",
    "v_proj": "value_projection",
    "out_proj": "output_projection",
    "fc1": "feed_forward.inner",
    "fc2": "feed_forward.outer",
    "self_attn_layer_norm": "self_attention_norm.norm",
    "encoder_attn_layer_norm": "cross_attention_norm.norm",
    "final_layer_norm": "feed_forward_norm.norm",
}
# Which axis of a weight is d_model: the last where it reads states, the first where it writes them.
READS = re.compile(r"(embedding|query_projection|key_projection|value_projection|inner)\.weight$")
WRITES = re.compile(r"(output_projection|outer|norm)\.(weight|bias)$")


@torch.no_grad()
def from_marian(hf_model: nn.Module) -> Transformer:
    """Our Transformer with the weights, and so the function, of a Hugging Face `MarianMTModel`.

    Marian's positions are sines, then cosines; ours take turns. So the d_model axis of every weight is reordered.
    A table of positions that holds no sinusoids becomes a learned one. The result is run beside the original.
    The functions are the same in evaluation mode; of Marian's three rates of dropout, ours has the one called dropout.

    Returns:
        a model in evaluation mode, with the dtype and device of the given one and no memory in common with it.

    Raises:
        ValueError: another kind of model, or what ours cannot express.
    """
    hf: Any = hf_model
    if getattr(getattr(hf, "config", None), "model_type", None) != "marian" or not hasattr(hf, "final_logits_bias"):
        raise ValueError(f"hf_model is a {type(hf).__name__}; pass a MarianMTModel, the one kind that can be converted")
    encoder, decoder, bias = hf.model.encoder, hf.model.decoder, hf.final_logits_bias.flatten()
    table = encoder.embed_positions.weight
    if not torch.equal(table, decoder.embed_positions.weight):
        raise ValueError("encoder and decoder have different tables of positions; ours has one for both")
    weights = {
        "embedding.weight": decoder.embed_tokens.weight,
        "own_source_embedding.weight": encoder.embed_tokens.weight,
        "own_output_embedding.weight": hf.lm_head.weight,
    }
    if bias.any():
        weights["output_bias"] = bias
    for name, weight in hf.model.state_dict().items():
        if ".layers." in name:
            weights[re.sub(r"\w+", lambda word: NAMES.get(word[0], word[0]), name)] = weight
    order = _order_of_sinusoids(table)
    if order is None:
        weights["positions.table"] = table
    else:
        weights |= {name: weight[..., order] for name, weight in weights.items() if READS.search(name)}
        weights |= {name: weight[order] for name, weight in weights.items() if WRITES.search(name)}

    def logits(source: Tensor, target_input: Tensor) -> Tensor:
        return hf(source, decoder_input_ids=target_input).logits

    ids = (hf.config.pad_token_id, hf.config.decoder_start_token_id, hf.config.eos_token_id)
    return converted(hf, (encoder, decoder), weights, encoder.embed_scale, ids, logits)


def _order_of_sinusoids(table: Tensor) -> Tensor | None:
    # How to take turns of the sines and cosines in the columns of this table, if it holds them.
    length, d_model = table.shape
    if d_model % 2:
        return None
    order = torch.arange(d_model).view(2, -1).T.flatten()
    off = (table.cpu()[:, order] - sinusoids(length, d_model, dtype=torch.float64)).abs().max()
    return order if off <= max(torch.finfo(kind).eps for kind in (table.dtype, torch.float32)) else None
