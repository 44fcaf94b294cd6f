"""Published Marian translators, as Hugging Face's `MarianMTModel`, as our model; and our translators as theirs."""

import re
from typing import Any

import torch
from torch import Tensor, nn

from ..config import TransformerConfig
from ..decoding import longest_output
from ..own_parts import check_weights_suffice
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
READS = re.compile(
    r"(embedding|query_projection|key_projection|value_projection|inner)"
    r"\.weight$"
)
WRITES = re.compile(r"(output_projection|outer|norm)\.(weight|bias)$")


@torch.no_grad()
def from_marian(hf_model: nn.Module) -> Transformer:
    """Our Transformer with the weights and the function of a `MarianMTModel`.

    Marian's positions are sines, then cosines; ours take turns. So the d_model
    axis of every weight is reordered. A table of positions that holds no
    sinusoids becomes a learned one. The result is run beside the original.
    The functions are the same in evaluation mode; of Marian's three rates of
    dropout, ours has the one called dropout.

    Returns:
        a model in evaluation mode, with the dtype and device of the given one
        and no memory in common with it.

    Raises:
        ValueError: another kind of model, or what ours cannot express.
    """
    hf: Any = hf_model
    kind = getattr(getattr(hf, "config", None), "model_type", None)
    if kind != "marian" or not hasattr(hf, "final_logits_bias"):
        wanted = "a MarianMTModel, the one kind that can be converted"
        raise ValueError(f"hf_model is a {type(hf).__name__}; pass {wanted}")
    encoder, decoder = hf.model.encoder, hf.model.decoder
    bias = hf.final_logits_bias.flatten()
    table = encoder.embed_positions.weight
    if not torch.equal(table, decoder.embed_positions.weight):
        problem = "encoder and decoder have different tables of positions"
        raise ValueError(f"{problem}; ours has one for both")
    weights = {
        "embedding.weight": decoder.embed_tokens.weight,
        "own_source_embedding.weight": encoder.embed_tokens.weight,
        "own_output_embedding.weight": hf.lm_head.weight,
    }
    if bias.any():
        weights["output_bias"] = bias
    for name, weight in hf.model.state_dict().items():
        if ".layers." in name:
            parts = [NAMES.get(part, part) for part in str(name).split(".")]
            weights[".".join(parts)] = weight
    order = _order_of_sinusoids(table)
    if order is None:
        weights["positions.table"] = table
    else:
        for name, weight in weights.items():
            if READS.search(name):
                weights[name] = weight[..., order]
            elif WRITES.search(name):
                weights[name] = weight[order]

    def logits(source: Tensor, target_input: Tensor) -> Tensor:
        return hf(source, decoder_input_ids=target_input).logits

    ids = (
        hf.config.pad_token_id,
        hf.config.decoder_start_token_id,
        hf.config.eos_token_id,
    )
    parts, scale = (encoder, decoder), encoder.embed_scale
    return converted(hf, parts, weights, scale, ids, logits)


def _order_of_sinusoids(table: Tensor) -> Tensor | None:
    # The order in which the sines and cosines of this table take turns, if it
    # holds them.
    length, d_model = table.shape
    if d_model % 2:
        return None
    order = torch.arange(d_model).view(2, -1).T.flatten()
    expected = sinusoids(length, d_model, dtype=torch.float64)
    off = (table.cpu()[:, order] - expected).abs().max()
    kinds = (table.dtype, torch.float32)
    coarser = max(torch.finfo(kind).eps for kind in kinds)
    return order if off <= coarser else None


@torch.no_grad()
def to_marian(model: Transformer) -> nn.Module:
    """A Hugging Face `MarianMTModel` with the weights, and so the function, of our Transformer: from_marian reversed.

    Marian's attention has biases; a model without them gets zeros.

    Returns:
        a model in evaluation mode, in float32 on the CPU, that generates greedily unless told otherwise.

    Raises:
        ImportError: transformers is missing.
        ValueError: pre-norm, a norm after the stacks, learned positions, heads of other widths than d_model / heads, or
            parts of your own.
    """
    import transformers

    check_weights_suffice(model)
    _check_marian_has_it(model.config)
    settings = _marian_config(model)
    with torch.random.fork_rng(devices=[]):  # It draws random weights first.
        hf: Any = transformers.MarianMTModel(settings).eval()
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
    search = {name: getattr(settings, name) for name in names} | {"max_new_tokens": longest_output(model.config)}
    never = [[model.config.pad_id]]  # no word of the language
    hf.generation_config = transformers.GenerationConfig(bad_words_ids=never, **search)
    _fill(hf, model)
    return hf


def _marian_config(model: Transformer) -> Any:
    import transformers

    config = model.config
    return transformers.MarianConfig(
        vocab_size=config.source_vocabulary_size or config.vocabulary_size,
        decoder_vocab_size=config.vocabulary_size,
        share_encoder_decoder_embeddings=config.source_vocabulary_size is None,
        tie_word_embeddings=config.tied_output,
        max_position_embeddings=longest_output(config),
        d_model=config.d_model,
        encoder_layers=config.num_layers,
        decoder_layers=config.decoder_layers,
        encoder_attention_heads=config.num_heads,
        decoder_attention_heads=config.num_heads,
        encoder_ffn_dim=config.d_ff,
        decoder_ffn_dim=config.d_ff,
        activation_function=config.activation,
        dropout=config.p_drop,
        scale_embedding=True,
        pad_token_id=config.pad_id,
        bos_token_id=config.bos_id,
        eos_token_id=config.eos_id,
        decoder_start_token_id=config.bos_id,
    )


def _check_marian_has_it(config: TransformerConfig) -> None:
    width = config.d_model / config.num_heads
    heads = f"d_k={width:g} d_v={width:g}" if width.is_integer() else "num_heads that divide d_model"
    lacking = {  # what it has, whether Marian lacks it, and what to give instead
        f"norm_order = {config.norm_order!r}": (config.norm_order != "post", "norm_order=post"),
        f"final_norm = {config.final_norm}": (config.final_norm and config.norm_order == "post", "final_norm=false"),
        f"positions = {config.positions!r}": (config.positions != "sinusoidal", "positions=sinusoidal"),
        f"d_k = {config.d_k}, d_v = {config.d_v}": (not config.d_k == config.d_v == width, heads),
    }
    named = {setting: remedy for setting, (lacks, remedy) in lacking.items() if lacks}
    if named:
        has = f"post-norm, no final norm, sinusoids, heads of d_model / num_heads = {width:g}"
        raise ValueError(f"{'; '.join(named)}: Marian has {has}; train with --model … {' '.join(named.values())}")


def _fill(hf: Any, model: Transformer) -> None:
    weights = {name: weight.detach().float().cpu() for name, weight in model.state_dict().items()}
    order = torch.arange(model.config.d_model).view(-1, 2).T.flatten()  # the sines, then the cosines
    weights |= {name: weight[..., order] for name, weight in weights.items() if READS.search(name)}
    weights |= {name: weight[order] for name, weight in weights.items() if WRITES.search(name)}
    renamed = {name: torch.zeros_like(weight) for name, weight in hf.model.state_dict().items() if "_proj.bias" in name}
    for name, weight in weights.items():
        if ".layers." in name:
            for theirs, ours in NAMES.items():
                name = re.sub(rf"\b{re.escape(ours)}\b", theirs, name)  # noqa: PLW2901
            renamed[name] = weight
    target = weights["embedding.weight"]
    renamed["encoder.embed_tokens.weight"] = weights.get("own_source_embedding.weight", target)
    renamed["decoder.embed_tokens.weight"] = target
    hf.model.load_state_dict(hf.model.state_dict() | renamed)
    hf.lm_head.weight.copy_(weights.get("own_output_embedding.weight", target))
    if "output_bias" in weights:
        hf.final_logits_bias[0] = weights["output_bias"]
