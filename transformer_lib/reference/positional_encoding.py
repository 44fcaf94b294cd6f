"""The table of sines and cosines."""

import math

import numpy as np


def sinusoids(length, d_model, base=10000.0):
    """Section 3.5, one entry at a time."""
    table = np.zeros((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / base ** (2 * i / d_model)
            table[position, 2 * i] = math.sin(angle)
            table[position, 2 * i + 1] = math.cos(angle)
    return table
