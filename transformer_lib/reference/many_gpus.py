"""Several workers add up their gradients."""

import numpy as np


def ring_all_reduce(vectors, turns=None):
    """Workers in a ring add up their vectors -> what each holds and has sent.

    Every vector is cut into as many pieces as there are workers. In each turn
    everybody passes one piece to the right. At first the receiver adds it to
    its own; later the pieces are finished sums, and the receiver keeps them.
    `turns` stops it early.
    """
    n = len(vectors)
    vectors = [np.array(vector, dtype=float) for vector in vectors]
    held = [np.array_split(vector, n) for vector in vectors]
    sent = [0] * n
    for turn in range(2 * (n - 1) if turns is None else turns):
        messages = [held[i][(i - turn) % n].copy() for i in range(n)]
        for worker in range(n):
            left = (worker - 1) % n
            piece = (left - turn) % n
            if turn < n - 1:
                held[worker][piece] += messages[left]
            else:
                held[worker][piece] = messages[left]
            sent[left] += len(messages[left])
    return [np.concatenate(pieces) for pieces in held], sent
