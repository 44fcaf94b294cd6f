"""The words of one sentence look each other up."""

import numpy as np

from .attention_as_lookup import softmax


def self_attention(states, w_query, w_key, w_value):
    """Each word asks all words, its own too -> states (n, d), weights (n, n).

    states (n, d); w_query and w_key (d, d_k), w_value (d, d)
    """
    n = len(states)
    new, weights = states.copy(), np.zeros((n, n))
    for i in range(n):
        query = states[i] @ w_query
        scores = [float(query @ (states[j] @ w_key)) for j in range(n)]
        weights[i] = softmax(scores)
        for j in range(n):
            new[i] += weights[i, j] * (states[j] @ w_value)
    return new, weights
