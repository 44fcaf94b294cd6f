"""Attention with shapes and masks, and counts of parameters with settings, drawn at random by hypothesis.

The other files prove each function at chosen sizes. Here nobody chose: odd widths, one head, sentences of one token,
batches of one, values and keys of unlike width.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transformer_lib import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    count_parameters,
    reference,
    scaled_dot_product_attention,
)
from transformer_lib.fast import watch_attention

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
# The same draws in every run; no limits of time, since the machine may be busy.
drawn = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
sizes = st.integers(1, 5)


@st.composite
def configs(draw):
    values = {
        "vocabulary_size": draw(st.integers(4, 9)),
        "source_vocabulary_size": draw(st.none() | st.integers(4, 9)),
        "num_layers": draw(st.integers(1, 2)),
        "num_decoder_layers": draw(st.none() | st.integers(1, 3)),
        "d_model": 2 * draw(sizes),
        "d_ff": draw(sizes),
        "num_heads": draw(st.integers(1, 3)),
        "d_k": draw(sizes),
        "d_v": draw(sizes),
        "p_drop": 0.0,
        "norm_order": draw(st.sampled_from(["post", "pre"])),
        "final_norm": draw(st.sampled_from([None, False, True])),
        "positions": draw(st.sampled_from(["sinusoidal", "learned"])),
        "max_positions": 20,
        "activation": draw(st.sampled_from(["relu", "gelu", "silu"])),
        "attention_bias": draw(st.booleans()),
        "tied_output": draw(st.booleans()),
        "output_bias": draw(st.booleans()),
    }
    return TransformerConfig(**values)


@drawn
@given(configs())
@pytest.mark.paper("table-3")
def test_the_closed_form_counts_any_model(config):
    assert count_parameters(config) == count_parameters(Transformer(config))


@drawn
@given(*[sizes] * 6, st.data())
@pytest.mark.paper("eq-1", "mha", "causal-mask")
def test_attention_of_any_sizes_with_any_mask(batch, heads, queries, keys, d_k, d_v, data):
    mask_shape = [data.draw(st.sampled_from([1, n])) for n in (batch, heads, queries, keys)]
    bits = st.lists(st.booleans(), min_size=math.prod(mask_shape), max_size=math.prod(mask_shape))
    mask = data.draw(st.none() | bits.map(lambda b: torch.tensor(b).view(mask_shape)))
    query = data.draw(st.sampled_from([1, 50])) * torch.randn(batch, heads, queries, d_k).double()
    key, value = torch.randn(batch, heads, keys, d_k).double(), torch.randn(batch, heads, keys, d_v).double()
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    full = torch.ones(batch, heads, queries, keys, dtype=torch.bool) if mask is None else mask.expand_as(weights)
    assert (weights[~full] == 0).all()
    kernel = torch.nn.functional.scaled_dot_product_attention(query, key, value, full)
    torch.testing.assert_close(kernel, output, **CLOSE)
    for b in range(batch):
        for h in range(heads):
            expected = reference.attention(*(x[b, h].numpy() for x in (query, key, value, full)))
            np.testing.assert_allclose(output[b, h], expected[0], **CLOSE)
            np.testing.assert_allclose(weights[b, h], expected[1], **CLOSE)
    layer = MultiHeadAttention(d_model=queries + 1, num_heads=heads, d_k=d_k, d_v=d_v).double()
    states, memory = torch.randn(batch, queries, queries + 1).double(), torch.randn(batch, keys, queries + 1).double()
    fused = layer(states, memory, memory, mask)
    with watch_attention(lambda *_: None):  # the written-out form
        torch.testing.assert_close(layer(states, memory, memory, mask), fused, **CLOSE)
