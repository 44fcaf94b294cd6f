"""Attention and whole models with shapes, masks and settings drawn at random by hypothesis.

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


@st.composite
def models(draw):
    torch.manual_seed(draw(st.integers(0, 2**31)))
    model = Transformer(draw(configs())).double().eval()
    for parameter in model.parameters():  # gains and biases too
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


@st.composite
def sources(draw, model):
    """A batch of one to three sentences of one to five tokens, padded."""
    high = (model.config.source_vocabulary_size or model.config.vocabulary_size) - 1
    rows = draw(st.lists(st.lists(st.integers(2, high), min_size=1, max_size=5), min_size=1, max_size=3))
    width = max(map(len, rows))
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])


@st.composite
def target_inputs(draw, model, batch):
    length = draw(st.integers(1, 5))
    row = st.lists(st.integers(2, model.config.vocabulary_size - 1), min_size=length - 1, max_size=length - 1)
    return torch.tensor([[1, *draw(row)] for _ in range(batch)])


@pytest.mark.slow
@drawn
@given(st.data())
@pytest.mark.paper("causal-mask")
def test_no_logit_of_any_model_depends_on_padding_neighbours_or_the_future(data):
    model = data.draw(models())
    source = data.draw(sources(model))
    target_input = data.draw(target_inputs(model, len(source)))
    logits = model(source, target_input)
    assert logits.shape == (*target_input.shape, model.config.vocabulary_size)
    padding = torch.zeros(len(source), 2, dtype=torch.long)
    padded = model(torch.cat([source, padding], 1), torch.cat([target_input, padding], 1))
    torch.testing.assert_close(padded[:, : target_input.size(1)], logits, **CLOSE)
    torch.testing.assert_close(model(source.flip(0), target_input.flip(0)).flip(0), logits, **CLOSE)
    torch.testing.assert_close(model(source[:1], target_input[:1]), logits[:1], **CLOSE)
    length = data.draw(st.integers(1, target_input.size(1)))
    torch.testing.assert_close(model(source, target_input[:, :length]), logits[:, :length], **CLOSE)


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
