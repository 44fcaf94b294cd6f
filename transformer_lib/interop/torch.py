"""The parts of a translator around PyTorch's `nn.Transformer` as our model, and our weights under its names."""

import math
from collections.abc import Iterable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import TransformerConfig
from ..masks import causal_mask
from ..positional_encoding import sinusoids
from ..transformer import Transformer
from .conversion import converted


@torch.no_grad()
def from_torch(
    transformer: nn.Transformer,
    embedding: nn.Embedding,
    target_embedding: nn.Embedding | None = None,
    output: nn.Linear | None = None,
    *,
    positions: Tensor | nn.Embedding | Literal["sinusoidal"] | None = "sinusoidal",
    embedding_scale: float | None = None,
    pad_id: int = 0,
    bos_id: int = 1,
    eos_id: int = 2,
) -> Transformer:
    """Our Transformer with the weights, and so the function, of a translator made of these parts.

        read = embedding(source) · embedding_scale + positions
        states = transformer(read, the same of the target)
        logits = output(states)

    The functions are the same in evaluation mode, for each sentence by itself: ours always masks padding and what
    comes later in the target. In training, PyTorch's also drops attention weights. The result is run beside the parts.

    Args:
        target_embedding: None: the source's.
        output: None: the target's embedding again, without a bias.
        positions: a table (length, d_model) becomes learned positions, which limit the length to its rows. None adds
            nothing: ours then has 1024 rows of zeros, so pass zeros of your own for longer sentences.
        embedding_scale: None: √d_model.

    Returns:
        a model in evaluation mode, with the dtype and device of the parts and no memory in common with them.

    Raises:
        ValueError: a part of another kind or shape, or what our model cannot express.
    """
    embeddings = (embedding, target_embedding or embedding)
    _check_kind("transformer", transformer, nn.Transformer)
    _check_kind("encoder", transformer.encoder, nn.TransformerEncoder)
    _check_kind("decoder", transformer.decoder, nn.TransformerDecoder)
    _check_kind("encoder.layers[0]", transformer.encoder.layers[0], nn.TransformerEncoderLayer)
    for part in embeddings:
        _check_kind("embedding", part, nn.Embedding)
        if part.max_norm is not None or part.padding_idx not in (None, pad_id):
            needed = "its padding_idx as pad_id, and no max_norm, which changes it in use"
            raise ValueError(f"embedding = {part} with pad_id = {pad_id}; pass {needed}")
    source, target = (part.weight for part in embeddings)
    weights = {"embedding.weight": target, "own_source_embedding.weight": source, "own_output_embedding.weight": target}
    if output is not None:
        _check_kind("output", output, nn.Linear)
        weights["own_output_embedding.weight"] = output.weight
        if output.bias is not None:
            weights["output_bias"] = output.bias
    table = _table(positions, transformer.d_model).to(target)
    if not isinstance(positions, str):
        weights["positions.table"] = table
    for name, weight in transformer.state_dict().items():
        names = our_names(name)
        weights |= zip(names, weight.chunk(len(names)), strict=True)
    scale = math.sqrt(transformer.d_model) if embedding_scale is None else embedding_scale
    axis = 0 if transformer.batch_first else 1

    def logits(*ids: Tensor) -> Tensor:
        states = [part(x) * scale + table[: x.size(1)] for part, x in zip(embeddings, ids, strict=True)]
        hidden = ~causal_mask(ids[1].size(1), device=target.device)  # True means the opposite to PyTorch
        final = transformer(*(x.transpose(0, axis) for x in states), tgt_mask=hidden).transpose(0, axis)
        return F.linear(final, target) if output is None else output(final)

    stacks, ids = (transformer.encoder, transformer.decoder), (pad_id, bos_id, eos_id)
    return converted(transformer, stacks, weights, scale, ids, logits)


def _check_kind(name: str, part: Any, kind: type[nn.Module]) -> None:
    if getattr(type(part), "forward", None) is not kind.forward:
        parts = "from_torch(transformer, embedding, target_embedding, output, positions=…, embedding_scale=…)"
        raise ValueError(f"{name} is a {type(part).__name__}, not an nn.{kind.__name__}; pass PyTorch's own: {parts}")


def _table(positions: Tensor | nn.Embedding | str | None, d_model: int) -> Tensor:
    if positions is None:
        return torch.zeros(TransformerConfig.max_positions, d_model)
    if not isinstance(positions, str):
        return (positions.weight if isinstance(positions, nn.Embedding) else positions).squeeze()
    if positions != "sinusoidal" or d_model % 2:
        needed = "'sinusoidal' with an even d_model, a table, or None"
        raise ValueError(f"positions = {positions!r} with d_model = {d_model} must be {needed}")
    return sinusoids(TransformerConfig.max_positions, d_model)


def our_names(name: str) -> list[str]:
    """Our names of the weights that nn.Transformer keeps under this one.

    They are three where it stacks the projections of query, key and value.
    """
    ours = {
        "self_attn": "self_attention",
        "multihead_attn": "cross_attention",
        "out_proj": "output_projection",
        "linear1": "feed_forward.inner",
        "linear2": "feed_forward.outer",
        "norm1": "self_attention_norm.norm",
        "norm2": "cross_attention_norm.norm",
        "norm3": "feed_forward_norm.norm",
    }
    if name.startswith("encoder."):  # Its layers have no cross-attention.
        ours["norm2"] = ours["norm3"]
    renamed = ".".join(ours.get(word, word) for word in name.split("."))
    before, stacked, kind = renamed.partition("in_proj_")
    if not stacked:
        return [renamed]
    sides = ("query", "key", "value")
    return [f"{before}{side}_projection.{kind}" for side in sides]


def pytorch_names(model: Transformer, names: Iterable[str]) -> dict[str, Tensor]:
    """The weights of our stacks under these names of nn.Transformer's."""
    ours, renamed = model.state_dict(), {}
    for name in names:
        renamed[name] = torch.cat([ours[part] for part in our_names(name)])
    return renamed
