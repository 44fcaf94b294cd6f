"""Several heads, and their join."""

import numpy as np

from .attention import attention


def multi_head_attention(
    query,
    key,
    value,
    w_query,
    w_key,
    w_value,
    w_output,
    mask=None,
):
    """Section 3.2.2; w_query[i] (d_model, d_k), w_output (h · d_v, d_model)."""
    heads = []
    for w_q, w_k, w_v in zip(w_query, w_key, w_value, strict=True):
        output, _ = attention(query @ w_q, key @ w_k, value @ w_v, mask)
        heads.append(output)
    return np.concatenate(heads, axis=1) @ w_output
