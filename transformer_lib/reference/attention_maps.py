"""What a head gives to whom."""

import math


def share_of_weight(weights, key_of_query, causal=False):
    """What a head gives to one key of each query, and what even weights would.

    weights (n, m); key_of_query(i) is a key, or another number if it has none.
    """
    n, m = weights.shape
    given, even = [], []
    for i in range(n):
        visible = i + 1 if causal else m
        j = key_of_query(i)
        if 0 <= j < visible and visible > 1:  # where there is a choice
            given.append(weights[i, j])
            even.append(1 / visible)
    if not given:
        return math.nan, math.nan
    return sum(given) / len(given), sum(even) / len(even)


def crossed_pairs(places):
    """Lines run from word i to places[i] -> pairs that cross, that do not.

    Two lines that end at the same place do neither.
    """
    crossed = uncrossed = 0
    for i in range(len(places)):
        for later in range(i + 1, len(places)):
            crossed += places[i] > places[later]
            uncrossed += places[i] < places[later]
    return crossed, uncrossed


def keys_looked_at(weights):
    """exp of the entropy of each row of weights (n, m)."""
    numbers = []
    for row in weights:
        entropy = -sum(w * math.log(w) for w in row if w > 0)  # nats
        numbers.append(math.exp(entropy))
    return numbers
