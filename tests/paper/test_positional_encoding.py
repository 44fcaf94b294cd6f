import math

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from transformer_lib import reference, sinusoids
from transformer_lib.positional_encoding import LearnedPositions, SinusoidalPositions

LENGTH, D_MODEL = 23, 14


def table(length=LENGTH, d_model=D_MODEL, **options):
    return sinusoids(length, d_model, dtype=torch.float64, **options)


@pytest.mark.paper("pe")
@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_sinusoids_equal_the_loops(base):
    np.testing.assert_allclose(table(base=base), reference.sinusoids(LENGTH, D_MODEL, base), rtol=0, atol=1e-12)


@pytest.mark.paper("pe")
def test_wavelengths_go_from_two_pi_towards_base_times_two_pi():
    d_model = 512
    frequencies = torch.atan2(table(2, d_model)[1, 0::2], table(2, d_model)[1, 1::2])  # the angle at position 1
    wavelengths = 2 * math.pi / frequencies
    ratios = wavelengths[1:] / wavelengths[:-1]
    assert wavelengths[0].item() == pytest.approx(2 * math.pi)
    assert wavelengths[-1].item() == pytest.approx(10000 ** ((d_model - 2) / d_model) * 2 * math.pi)
    torch.testing.assert_close(ratios, ratios[:1].expand_as(ratios))  # a geometric progression


@pytest.mark.paper("pe")
def test_float32_is_the_rounded_float64_even_far_out():
    exact = reference.sinusoids(20_001, D_MODEL, 10000.0)[-1]
    np.testing.assert_allclose(sinusoids(20_001, D_MODEL)[-1], exact, rtol=0, atol=1e-7)


@pytest.mark.paper("pe-linear")
@pytest.mark.parametrize("offset", [1, 2, 10, 499])
def test_a_shift_is_one_rotation_of_each_pair(offset):
    encodings = table(600)
    rotation = torch.zeros(D_MODEL, D_MODEL, dtype=torch.float64)
    for i in range(D_MODEL // 2):
        angle = offset / 10000 ** (2 * i / D_MODEL)
        cos, sin = math.cos(angle), math.sin(angle)
        block = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
        pair = slice(2 * i, 2 * i + 2)
        rotation[pair, pair] = block
    shifted = encodings[: 600 - offset] @ rotation.T
    torch.testing.assert_close(shifted, encodings[offset:], rtol=0, atol=1e-11)


@pytest.mark.paper("pe")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_layer_gives_the_states_own_precision(dtype):
    states = torch.zeros(2, LENGTH, D_MODEL, dtype=dtype)
    assert torch.equal(SinusoidalPositions(D_MODEL)(states), sinusoids(LENGTH, D_MODEL, dtype=dtype))


def test_encodings_of_inference_and_of_a_trace_serve_in_training():
    layer = SinusoidalPositions(D_MODEL)
    states = torch.ones(1, 4, D_MODEL, requires_grad=True)
    with FakeTensorMode():
        layer(torch.zeros(1, 4, D_MODEL))
    torch.export.export(layer, (states.detach(),))
    with torch.inference_mode():
        layer(states)
    (states * layer(states)).sum().backward()
    assert torch.equal(states.grad[0], sinusoids(4, D_MODEL))


def test_a_device_may_be_named():
    assert torch.equal(sinusoids(3, 4, device="cpu"), sinusoids(3, 4))
    assert sinusoids(3, 4, device="meta").device.type == "meta"


@pytest.mark.paper("learned-pe")
def test_learned_positions_are_trained_rows():
    layer = LearnedPositions(5, D_MODEL)
    layer(torch.zeros(2, 3, D_MODEL)).sum().backward()
    assert layer.table.grad.sum(1).tolist() == [D_MODEL] * 3 + [0, 0]  # rows of positions not used learn nothing


@pytest.mark.paper("learned-pe")
def test_learned_positions_start_as_small_as_embeddings_and_no_larger():
    assert LearnedPositions(400, 64).table.std().item() == pytest.approx(64**-0.5, rel=0.05)


@pytest.mark.paper("learned-pe")
def test_learned_positions_end_where_the_table_ends():
    layer = LearnedPositions(5, D_MODEL)
    assert layer(torch.zeros(1, 5, D_MODEL)).shape == (5, D_MODEL)
    with pytest.raises(ValueError, match="max_positions"):
        layer(torch.zeros(1, 6, D_MODEL))
