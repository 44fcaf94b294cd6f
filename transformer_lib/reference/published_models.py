"""Two orders of the sinusoids."""

import numpy as np


def in_turns(halves):
    """All sines, then all cosines -> sine, cosine, sine, cosine, …"""
    turns = []
    pairs = len(halves) // 2
    for i in range(pairs):
        turns.append(halves[i])  # a sine
        turns.append(halves[pairs + i])  # its cosine
    return np.array(turns)
