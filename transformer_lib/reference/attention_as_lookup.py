"""A soft lookup: similarity, softmax, weighted sum."""

import math

import numpy as np


def softmax(scores):
    """exp of each score, divided by the sum; a list of only -inf gets zeros."""
    largest = max(scores)
    if largest == -math.inf:
        return [0.0 for _ in scores]
    exponentials = [math.exp(score - largest) for score in scores]
    total = sum(exponentials)
    return [e / total for e in exponentials]


def additive_attention(query, key, value, w_query, w_key, b_key, w_score):
    """A score of w · tanh(W_q q + W_k k + b) for each pair.

    query (n, d_q), key (m, d_k), value (m, d_v) -> output (n, d_v)
    """
    n, m = len(query), len(key)
    output = np.zeros((n, value.shape[1]))
    for i in range(n):
        scores = []
        for j in range(m):
            hidden = np.tanh(w_query @ query[i] + w_key @ key[j] + b_key)
            scores.append(float(w_score @ hidden))
        for j, weight in enumerate(softmax(scores)):
            output[i] += weight * value[j]
    return output
