"""Multiply-adds, counted one by one."""

import numpy as np


def matrix_product(a, b):
    """(rows, inner) times (inner, columns) -> the product, its multiply-adds."""
    product = np.zeros((len(a), len(b[0])))
    multiply_adds = 0
    for i in range(len(a)):
        for j in range(len(b[0])):
            for k in range(len(b)):
                product[i, j] += a[i][k] * b[k][j]
                multiply_adds += 1
    return product, multiply_adds


def forward_multiply_adds(c, source_length, target_length):
    """One pair through a model of sizes c, a token and a matrix at a time."""
    keys = c.d_model * c.num_heads * c.d_k  # a matrix of queries or of keys
    values = outputs = c.d_model * c.num_heads * c.d_v
    # A query meets a key: a score, then its share of the average.
    one_pair = c.num_heads * (c.d_k + c.d_v)
    count = 0
    for _ in range(c.num_layers):  # encoder
        for _ in range(source_length):
            count += keys + keys + values  # its own query, key and value
            for _ in range(source_length):
                count += one_pair
            count += outputs + 2 * c.d_model * c.d_ff
    for _ in range(c.decoder_layers):
        for _ in range(source_length):
            count += keys + values  # of cross-attention
        for position in range(target_length):
            count += keys + keys + values
            for _ in range(position + 1):  # the future is masked
                count += one_pair
            count += outputs
            count += keys  # the query of cross-attention
            for _ in range(source_length):
                count += one_pair
            count += outputs + 2 * c.d_model * c.d_ff
    for _ in range(target_length):
        count += c.d_model * c.vocabulary_size  # logits
    return count
