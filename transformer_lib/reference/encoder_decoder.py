"""The whole model for one sentence pair."""

import numpy as np

from .embeddings import embedding, logits
from .layers import feed_forward, layer_norm
from .multi_head_attention import multi_head_attention
from .positional_encoding import sinusoids


def transformer(
    weights,
    num_heads,
    source,
    target_input,
    pad_id,
    norm_order="post",
):
    """The whole model for one sentence pair: ids to (target, vocabulary).

    weights: name → float64 array, as in the library's state dict.
    A linear map is stored there as (out, in).
    """
    how = weights, num_heads, norm_order
    matrix = weights["embedding.weight"]
    own_matrix = weights.get("own_source_embedding.weight", matrix)
    mask = may_look(source, source, pad_id, causal=False)
    memory = stack("encoder", with_positions(source, own_matrix), mask, *how)
    states = with_positions(target_input, matrix)
    mask = may_look(target_input, target_input, pad_id, causal=True)
    memory_mask = may_look(target_input, source, pad_id, causal=False)
    states = stack("decoder", states, mask, *how, memory, memory_mask)
    return logits(states, matrix)


def with_positions(tokens, matrix):
    """Each token's embedding plus the encoding of its position."""
    return embedding(tokens, matrix) + sinusoids(len(tokens), len(matrix[0]))


def may_look(queries, keys, pad_id, causal):
    """True where token i of the queries may look at token j of the keys."""
    mask = np.empty((len(queries), len(keys)), dtype=bool)
    for i in range(len(queries)):
        for j, key in enumerate(keys):
            mask[i, j] = key != pad_id and (not causal or j <= i)
    return mask


def stack(
    side,
    x,
    mask,
    weights,
    num_heads,
    norm_order,
    memory=None,
    memory_mask=None,
):
    """All layers of one side, one after the other."""
    layer = 0
    while f"{side}.layers.{layer}.feed_forward.inner.weight" in weights:
        name = f"{side}.layers.{layer}"
        how = weights, num_heads, norm_order
        x = sublayer(f"{name}.self_attention", x, *how, None, mask)
        if memory is not None:
            attention = f"{name}.cross_attention"
            x = sublayer(attention, x, *how, memory, memory_mask)
        x = sublayer(f"{name}.feed_forward", x, *how)
        layer += 1
    return norm(f"{side}.norm", x, weights) if norm_order == "pre" else x


def sublayer(name, x, weights, num_heads, norm_order, memory=None, mask=None):
    """x + the sub-layer of x; normalised after the sum, or before it."""
    y = norm(f"{name}_norm.norm", x, weights) if norm_order == "pre" else x
    if name.endswith("attention"):
        looked_at = y if memory is None else memory
        new = look(name, y, looked_at, mask, weights, num_heads)
    else:
        new = think(name, y, weights)
    x = x + new
    return x if norm_order == "pre" else norm(f"{name}_norm.norm", x, weights)


def look(name, query, memory, mask, weights, num_heads):
    """Multi-head attention; the heads' matrices stand side by side."""
    sides = ("query", "key", "value")
    wide = [weights[f"{name}.{side}_projection.weight"].T for side in sides]
    w_query, w_key, w_value = (np.split(w, num_heads, axis=1) for w in wide)
    w_output = weights[f"{name}.output_projection.weight"].T
    projections = w_query, w_key, w_value, w_output
    return multi_head_attention(query, memory, memory, *projections, mask)


def think(name, x, weights):
    """The feed-forward network."""
    inner, outer = f"{name}.inner", f"{name}.outer"
    return feed_forward(
        x,
        weights[f"{inner}.weight"].T,
        weights[f"{inner}.bias"],
        weights[f"{outer}.weight"].T,
        weights[f"{outer}.bias"],
    )


def norm(name, x, weights):
    """Layer normalisation with the gain and the bias of this name."""
    return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])
