"""Table 1: who reads whom, and in how many steps."""

import math

import numpy as np

from .attention_as_lookup import softmax


def restricted_attention(query, key, value, r):
    """Equation (1), but query i has the r keys around place i alone, r odd -> (n, d_v)."""
    n, d_k = query.shape
    output = np.zeros((n, value.shape[1]))
    for i in range(n):
        around = [j for j in range(i - r // 2, i + r // 2 + 1) if 0 <= j < n]
        scores = []
        for j in around:  # r of them, however long the sentence
            dot_product = sum(query[i, c] * key[j, c] for c in range(d_k))
            scores.append(dot_product / math.sqrt(d_k))
        for j, weight in zip(around, softmax(scores), strict=True):
            output[i] += weight * value[j]
    return output


def steps_to_reach(n, start, reads):
    """Place -> after how many steps its state depends on the word at `start`.

    reads(step, i): the places whose states place i reads in this step, from 0.
    """
    steps = {start: 0}
    step = 0
    while True:
        new = {}
        for i in range(n):
            if i not in steps and any(j in steps for j in reads(step, i)):
                new[i] = step + 1
        if not new:
            return steps
        steps |= new
        step += 1


def maximum_path_length(n, reads):
    """The most steps that any word takes to any place it reaches at all."""
    longest = 0
    for start in range(n):
        longest = max(longest, *steps_to_reach(n, start, reads).values())
    return longest
