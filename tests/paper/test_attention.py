import numpy as np
import pytest
import torch
from tiny_models import random_mask

from transformer_lib import reference, scaled_dot_product_attention
from transformer_lib.attention import AdditiveAttention

QUERIES, KEYS, D_K, D_V = 3, 5, 7, 11  # distinct primes: a swapped axis cannot go unnoticed
DOUBLE = {"rtol": 1e-12, "atol": 1e-12}


def random_inputs(*leading, dtype=torch.float64):
    shapes = ((QUERIES, D_K), (KEYS, D_K), (KEYS, D_V))
    return [torch.randn(*leading, *shape, dtype=dtype) for shape in shapes]


@pytest.mark.paper("eq-1", "scale")
@pytest.mark.parametrize("masked", [False, True])
def test_equation_1_equals_the_loops(masked):
    query, key, value = random_inputs()
    mask = random_mask(QUERIES, KEYS) if masked else None
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    inputs = query, key, value, mask
    arrays = (None if x is None else x.numpy() for x in inputs)
    expected = reference.attention(*arrays)
    np.testing.assert_allclose(output, expected[0], **DOUBLE)
    np.testing.assert_allclose(weights, expected[1], **DOUBLE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.paper("causal-mask")
def test_a_row_with_nothing_to_look_at_gives_zeros_and_no_nan(dtype):
    query, key, value = (x.requires_grad_() for x in random_inputs(dtype=dtype))
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    mask[1] = False
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    assert output[1].abs().max() == 0
    assert weights[1].abs().max() == 0
    assert weights[0].sum().item() == pytest.approx(1, abs=1e-2)
    output.sum().backward()
    for x in (query, key, value):
        assert x.grad.isfinite().all()


@pytest.mark.paper("eq-1")
def test_large_scores_do_not_overflow_in_half_precision():
    query = torch.full((1, 64), 40.0, dtype=torch.float16)  # the dot product, 102,400, is past float16's 65,504
    key, value = torch.cat([query, -query]), torch.tensor([[1.0], [2.0]], dtype=torch.float16)
    assert scaled_dot_product_attention(query, key, value)[0].item() == 1.0


@pytest.mark.paper("additive")
def test_additive_attention_equals_the_loops():
    layer = AdditiveAttention(D_K, 2 * D_K, 17).double()
    query = torch.randn(QUERIES, D_K).double()
    key = torch.randn(KEYS, 2 * D_K).double()
    value = torch.randn(KEYS, D_V).double()
    output, weights = layer(query, key, value)
    parameters = (
        layer.query_projection.weight,
        layer.key_projection.weight,
        layer.key_projection.bias,
        layer.score.weight[0],
    )
    arrays = (x.detach().numpy() for x in (query, key, value, *parameters))
    expected = reference.additive_attention(*arrays)
    np.testing.assert_allclose(output.detach(), expected, **DOUBLE)
    torch.testing.assert_close(weights.sum(-1), torch.ones(QUERIES).double())


@pytest.mark.paper("additive")
def test_additive_attention_respects_the_mask():
    layer = AdditiveAttention(D_K, D_K, 17)
    query, key, value = random_inputs(dtype=torch.float32)
    mask = random_mask(QUERIES, KEYS)
    _, weights = layer(query, key, value, mask)
    assert (weights[~mask] == 0).all()
    assert (weights[mask] > 0).all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(QUERIES, KEYS), "dtype"),
        (torch.ones(KEYS, QUERIES, dtype=torch.bool), "shape"),
        (torch.ones(2, QUERIES, KEYS, dtype=torch.bool), "shape"),
    ],
)
def test_a_mask_of_the_wrong_kind_is_refused(mask, message):
    query, key, value = random_inputs(dtype=torch.float32)
    with pytest.raises(ValueError, match=message):
        scaled_dot_product_attention(query, key, value, mask)
