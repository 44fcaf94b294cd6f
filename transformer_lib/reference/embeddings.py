"""Tokens to vectors, and vectors to logits."""

import math

import numpy as np


def embedding(tokens, matrix):
    """Section 3.4: each token's row of the matrix, times √d_model."""
    d_model = len(matrix[0])
    vectors = []
    for token in tokens:
        row = matrix[token]
        vectors.append([math.sqrt(d_model) * row[c] for c in range(d_model)])
    return np.array(vectors)


def logits(states, matrix):
    """Section 3.4: states (n, d_model) times each row -> (n, vocabulary)."""
    products = np.zeros((len(states), len(matrix)))
    for i, state in enumerate(states):
        for token, row in enumerate(matrix):
            products[i, token] = sum(state[c] * row[c] for c in range(len(row)))
    return products
