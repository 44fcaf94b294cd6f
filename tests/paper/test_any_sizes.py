"""Every public function with shapes, masks and settings drawn at random by hypothesis.

The other files prove each function at chosen sizes. Here nobody chose: odd widths, one head, sentences of one token,
batches of one, values and keys of unlike width. `test_every_public_name_is_drawn` keeps the file complete.
"""

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import transformer_lib
from transformer_lib import (
    FeedForward,
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    average_checkpoints,
    beam_hypotheses,
    beam_search,
    causal_mask,
    count_parameters,
    greedy_decode,
    label_smoothing_loss,
    learning_rate,
    padding_mask,
    record_attention,
    reference,
    scaled_dot_product_attention,
    sinusoids,
)
from transformer_lib.fast import watch_attention

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
CONSTANTS = {"BASE", "BIG", "TABLE_3", "__version__"}
ELSEWHERE = {"TrainingConfig"}  # without shapes: tests/run/test_alignment.py, test_config.py
# The same draws in every run; no limits of time, since the machine may be busy.
drawn = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
sizes = st.integers(1, 5)


def test_every_public_name_is_drawn():
    text = Path(__file__).read_text("utf-8")
    assert {name for name in transformer_lib.__all__ if f"{name}(" not in text} == CONSTANTS | ELSEWHERE


@st.composite
def configs(draw, **fixed):
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
    return TransformerConfig(**values | fixed)


@st.composite
def models(draw, **fixed):
    torch.manual_seed(draw(st.integers(0, 2**31)))
    model = Transformer(draw(configs(**fixed))).double().eval()
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
@pytest.mark.paper("three-uses", "post-norm")
def test_a_model_of_any_sizes_equals_the_loops(data):
    plain = {"final_norm": None, "positions": "sinusoidal", "activation": "relu"}
    plain |= {"attention_bias": False, "tied_output": True, "output_bias": False}
    model = data.draw(models(**plain))
    source = data.draw(sources(model))
    target_input = data.draw(target_inputs(model, len(source)))
    logits = model(source, target_input).detach()
    weights = {name: weight.numpy() for name, weight in model.state_dict().items()}
    for ours, *pair in zip(logits, source.tolist(), target_input.tolist(), strict=True):
        expected = reference.transformer(weights, model.config.num_heads, *pair, 0, model.config.norm_order)
        np.testing.assert_allclose(ours, expected, **CLOSE)


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


@pytest.mark.slow
@drawn
@given(st.data())
def test_any_models_recorded_weights_are_distributions_over_the_keys_that_exist(data):
    model = data.draw(models())
    source = data.draw(sources(model))
    target_input = data.draw(target_inputs(model, len(source)))
    with record_attention(model) as weights:
        recorded = model(source, target_input)
    torch.testing.assert_close(recorded, model(source, target_input), **CLOSE)
    assert len(weights) == model.config.num_layers + 2 * model.config.decoder_layers
    for name, w in weights.items():
        assert w.size(1) == model.config.num_heads
        torch.testing.assert_close(w.sum(-1), torch.ones(w.shape[:-1]).double(), **CLOSE)
        if not name.startswith("decoder") or name.endswith("cross"):
            assert (w * (source == 0)[:, None, None]).abs().max() == 0


@pytest.mark.slow
@drawn
@given(st.data())
@pytest.mark.paper("decode")
def test_decoding_of_any_model_obeys_its_limit_and_goes_by_the_models_own_logits(data):
    model = data.draw(models())
    source = data.draw(sources(model))
    limit = data.draw(st.integers(1, 6))
    greedy = greedy_decode(model, source, limit)
    assert 1 <= greedy.size(1) <= limit
    alpha = data.draw(st.sampled_from([0.0, 0.6, 1.0]))
    assert torch.equal(beam_search(model, source, 1, alpha, limit), greedy)
    beam_size = data.draw(st.integers(2, 4))
    best = beam_search(model, source, beam_size, alpha, limit)
    for row, [first, *_] in zip(best.tolist(), beam_hypotheses(model, source, beam_size, alpha, limit), strict=True):
        assert row[: len(first.tokens)] == first.tokens
    for found in (greedy, best):
        for row in found.tolist():
            ended = row.index(2) + 1 if 2 in row else len(row)
            assert 0 not in row[:ended]
            assert set(row[ended:]) <= {0}
    begun = torch.cat([torch.ones(len(source), 1, dtype=torch.long), greedy[:, :-1]], 1)
    logits = model.decode(begun, model.encode(source), source)
    logits[..., 0] = -math.inf
    real = greedy != 0
    assert torch.equal(logits.argmax(-1)[real], greedy[real])


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


@drawn
@given(sizes, sizes, sizes, sizes)
@pytest.mark.paper("eq-2")
def test_feed_forward_of_any_sizes(batch, length, d_model, d_ff):
    layer = FeedForward(d_model, d_ff).double()
    x = torch.randn(batch, length, d_model).double()
    parameters = (layer.inner.weight.T, layer.inner.bias, layer.outer.weight.T, layer.outer.bias)
    numbers = [p.detach().numpy() for p in parameters]
    for b in range(batch):
        np.testing.assert_allclose(layer(x)[b].detach(), reference.feed_forward(x[b].numpy(), *numbers), **CLOSE)


@drawn
@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(0, 3))
@pytest.mark.paper("causal-mask")
def test_masks_of_any_tokens(rows, pad_id):
    tokens = torch.tensor(rows)
    assert padding_mask(tokens, pad_id)[:, 0, 0].tolist() == [[token != pad_id for token in row] for row in rows]
    assert np.array_equal(causal_mask(len(rows)), reference.causal_mask(len(rows)))


@drawn
@given(st.integers(1, 40), sizes, st.floats(1.5, 1e6))
@pytest.mark.paper("pe")
def test_sinusoids_of_any_length_width_and_base(length, half, base):
    table = sinusoids(length, 2 * half, base, dtype=torch.float64)
    np.testing.assert_allclose(table, reference.sinusoids(length, 2 * half, base), **CLOSE)


@drawn
@given(sizes, sizes, st.integers(2, 7), st.floats(0, 0.99), st.data())
@pytest.mark.paper("label-smoothing")
def test_the_loss_of_any_target_and_any_smoothing(batch, length, vocabulary, epsilon_ls, data):
    ids = data.draw(st.lists(st.integers(0, vocabulary - 1), min_size=batch * length, max_size=batch * length))
    target = torch.tensor([1, *ids[1:]]).view(batch, length)  # one real token at least
    logits = torch.randn(batch, length, vocabulary).double()
    expected = reference.label_smoothing_loss(logits.numpy(), target.tolist(), epsilon_ls, 0)
    assert label_smoothing_loss(logits, target, epsilon_ls, pad_id=0).item() == pytest.approx(expected)
    extreme = label_smoothing_loss(1e30 * logits, target, epsilon_ls, pad_id=0)
    assert extreme.isfinite()


@drawn
@given(st.integers(1, 10**6), st.integers(1, 4096), st.integers(1, 10**5))
@pytest.mark.paper("eq-3")
def test_the_learning_rate_of_any_step(step_num, d_model, warmup_steps):
    rate = learning_rate(step_num, d_model, warmup_steps)
    assert rate == pytest.approx(reference.learning_rate(step_num, d_model, warmup_steps))
    assert rate <= learning_rate(warmup_steps, d_model, warmup_steps) * (1 + 1e-12)


@drawn
@given(st.integers(1, 4), sizes, sizes, st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
@pytest.mark.paper("ckpt-avg")
def test_the_average_of_any_number_of_checkpoints(number, rows, columns, dtype):
    states = [{"weight": torch.randn(rows, columns, dtype=dtype)} for _ in range(number)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{i}.pt") for i in range(number)]
        for path, state in zip(paths, states, strict=True):
            torch.save(state, path)
        mean = average_checkpoints(paths)["weight"]
    expected = sum(state["weight"].double() for state in states) / number
    torch.testing.assert_close(mean, expected.to(dtype))
