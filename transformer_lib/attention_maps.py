"""Attention on its own tokens: which word stands on which axis, and a model without some of its heads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .transformer import Transformer, named_attentions


def attention_axes(
    name: str,
    source: Sequence[str],
    written: Sequence[str],
) -> tuple[list[str], list[str]]:
    """The labels of the queries and of the keys of one array of weights.

    Step i of the decoder has read `<bos>`, written[0] … written[i - 1] and
    chooses written[i]. Its query is named by both, "read → chosen". Its keys in
    self-attention are the inputs, in cross-attention the source.

    Args:
        name: a key of record_attention, such as "decoder.1.cross".
        source: tokens that the encoder read, `<eos>` included.
        written: tokens that the decoder chose, in order, `<bos>` not included.

    Raises:
        ValueError: a name that record_attention does not give.
    """
    read = ["<bos>", *written][: len(written)]
    steps = [f"{old} → {new}" for old, new in zip(read, written, strict=True)]
    match name.split("."):
        case ["encoder", _, "self"]:
            return list(source), list(source)
        case ["decoder", _, "self"]:
            return steps, read
        case ["decoder", _, "cross"]:
            return steps, list(source)
    problem = f"name = {name!r} is no key of record_attention"
    example = "such as 'encoder.0.self' or 'decoder.1.cross'"
    raise ValueError(f"{problem}, {example}")


def attention_records(
    weights: Mapping[str, Tensor], source: Sequence[str], written: Sequence[str]
) -> list[dict[str, Any]]:
    """Every weight of one sentence with its tokens, one by one.

    Args:
        weights: of hypothesis_attention, (1, heads, queries, keys) for each name.
        source, written: as in attention_axes.

    Returns:
        records of attention (the name), head, row, column, query, key, weight;
        heads, rows and columns count from 0.

    Raises:
        ValueError: weights of another shape than the tokens, or an unknown name.
    """
    records = []
    for name, array in weights.items():
        queries, keys = attention_axes(name, source, written)
        if (len(array), *array.shape[2:]) != (1, len(queries), len(keys)):
            raise ValueError(
                f"{name} has shape {tuple(array.shape)}, but there is one "
                f"sentence of {len(queries)} queries and {len(keys)} keys"
            )
        for head, rows in enumerate(array[0].tolist()):
            for i, query in enumerate(queries):
                for j, key in enumerate(keys):
                    place = {"attention": name, "head": head, "row": i, "column": j}
                    words = {"query": query, "key": key}
                    records.append(place | words | {"weight": rows[i][j]})
    return records


@contextmanager
def heads_removed(
    model: Transformer,
    heads: Iterable[tuple[str, int]],
) -> Iterator[None]:
    """The model without these heads, inside the `with` block.

        MultiHead = Σ_i head_i W_i^O, so W_i^O = 0 takes head i out

    Until the block ends, the weights of the model are changed for every thread
    that uses it. Another thread needs a copy of the model.

    Args:
        heads: a key of record_attention and the number of a head, from 0.

    Raises:
        ValueError: a head that the model does not have.
    """
    by_name = dict(named_attentions(model))
    for name, head in (heads := list(heads)):
        if name not in by_name or not 0 <= head < by_name[name].num_heads:
            raise ValueError(f"the model has no head {head} in {name!r}")
    blocks = {name: by_name[name].output_projection.weight for name, _ in heads}
    before = {name: block.detach().clone() for name, block in blocks.items()}
    with torch.no_grad():
        for name, head in heads:
            # nn.Linear keeps W^O transposed, (d_model, h · d_v), head by head.
            d_v = blocks[name].size(1) // by_name[name].num_heads
            blocks[name][:, head * d_v : (head + 1) * d_v] = 0.0
    try:
        yield
    finally:
        with torch.no_grad():
            for name, block in blocks.items():
                block.copy_(before[name])
