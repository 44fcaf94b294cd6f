"""Several workers add up their gradients; the products of a forward pass."""

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


def matrix_products(config, source, target):
    """Every matrix product of one forward pass over one sentence pair.

    The pair has this number of source tokens and of target tokens.
    -> [(rows, inner, columns, how often)], (rows, inner) times (inner, columns)
    """
    d_model, h = config.d_model, config.num_heads

    def attend(queries, keys):
        return [
            (queries, d_model, h * config.d_k, 1),  # queries
            (keys, d_model, h * config.d_k, 1),  # keys
            (keys, d_model, h * config.d_v, 1),  # values
            (queries, config.d_k, keys, h),  # scores
            (queries, keys, config.d_v, h),  # weights times values
            (queries, h * config.d_v, d_model, 1),  # output projection
        ]

    def feed_forward(length):
        inner = (length, d_model, config.d_ff, 1)
        outer = (length, config.d_ff, d_model, 1)
        return [inner, outer]

    encoder = attend(source, source) + feed_forward(source)
    decoder = attend(target, target) + attend(target, source)
    decoder += feed_forward(target)
    layers = config.num_layers * encoder + config.decoder_layers * decoder
    return [*layers, (target, d_model, config.vocabulary_size, 1)]  # and logits
