"""What came after the paper: rotary positions."""

import math

import numpy as np


def rotate(x, position, base=10000.0):
    """Not in the paper; x (d_k), a query or a key, turned pair by pair."""
    turned = np.zeros(len(x))
    for i in range(0, len(x), 2):
        angle = position / base ** (i / len(x))
        sine, cosine = math.sin(angle), math.cos(angle)
        turned[i] = x[i] * cosine - x[i + 1] * sine
        turned[i + 1] = x[i] * sine + x[i + 1] * cosine
    return turned
