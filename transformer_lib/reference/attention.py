"""Equation (1)."""

import math

import numpy as np

from .attention_as_lookup import softmax


def attention(query, key, value, mask=None):
    """Equation (1): (n, d_k), (m, d_k), (m, d_v) -> (n, d_v), (n, m)."""
    n, d_k = query.shape
    m, d_v = value.shape
    output = np.zeros((n, d_v))
    weights = np.zeros((n, m))
    for i in range(n):
        scores = []
        for j in range(m):
            dot_product = sum(query[i, c] * key[j, c] for c in range(d_k))
            scaled = dot_product / math.sqrt(d_k)
            may_look = mask is None or mask[i, j]
            scores.append(scaled if may_look else -math.inf)
        weights[i] = softmax(scores)
        for j in range(m):
            for c in range(d_v):
                output[i, c] += weights[i, j] * value[j, c]
    return output, weights
