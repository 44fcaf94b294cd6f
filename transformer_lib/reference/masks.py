"""The causal mask."""

import numpy as np


def causal_mask(length):
    """True where key j does not come after query i."""
    return np.array([[j <= i for j in range(length)] for i in range(length)])
