"""The feed-forward network and layer normalisation."""

import math

import numpy as np


def feed_forward(x, w_1, b_1, w_2, b_2):
    """Equation (2); x (n, d_model), w_1 (d_model, d_ff), w_2 (d_ff, d_model)"""
    rows = []
    for position in x:
        hidden = [max(0.0, h) for h in position @ w_1 + b_1]
        rows.append(np.array(hidden) @ w_2 + b_2)
    return np.array(rows)


def layer_norm(x, gain, bias, epsilon=1e-5):
    """Each position's vector, to mean 0 and variance 1; then gain and bias."""
    rows = []
    for position in x:
        mean = sum(position) / len(position)
        variance = sum((c - mean) ** 2 for c in position) / len(position)
        root = math.sqrt(variance + epsilon)
        rows.append([(c - mean) / root for c in position] * gain + bias)
    return np.array(rows)
