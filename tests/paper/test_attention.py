import numpy as np
import pytest
import torch
import torch.nn.functional as F

from transformer_lib import MultiHeadAttention, reference, scaled_dot_product_attention
from transformer_lib.attention import AdditiveAttention, watch_attention

QUERIES, KEYS, D_K, D_V = 3, 5, 7, 11  # distinct primes: a swapped axis cannot go unnoticed
DOUBLE = {"rtol": 1e-12, "atol": 1e-12}


def random_inputs(*leading, dtype=torch.float64):
    shapes = ((QUERIES, D_K), (KEYS, D_K), (KEYS, D_V))
    return [torch.randn(*leading, *shape, dtype=dtype) for shape in shapes]


def random_mask(*shape):
    mask = torch.rand(*shape) < 0.6
    mask[..., 0] = True
    return mask


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


def layer_and_inputs(d_model=13, num_heads=3, d_k=5, d_v=7, bias=False):
    layer = MultiHeadAttention(d_model, num_heads, d_k, d_v, bias).double()
    return layer, torch.randn(2, 4, d_model, dtype=torch.float64), torch.randn(2, 6, d_model, dtype=torch.float64)


@pytest.mark.paper("mha")
def test_several_heads_equal_the_loops_with_one_matrix_each():
    layer, query, memory = layer_and_inputs()
    mask = random_mask(2, 1, 4, 6)
    output = layer(query, memory, memory, mask).detach()
    maps = layer.query_projection, layer.key_projection, layer.value_projection
    wide = [p.weight.detach().numpy().T for p in maps]
    per_head = [np.split(matrix, layer.num_heads, axis=1) for matrix in wide]
    w_output = layer.output_projection.weight.detach().numpy().T
    for b in range(2):
        rows = (query[b].numpy(), memory[b].numpy(), memory[b].numpy())
        matrices = (*per_head, w_output, mask[b, 0].numpy())
        expected = reference.multi_head_attention(*rows, *matrices)
        np.testing.assert_allclose(output[b], expected, **DOUBLE)


@pytest.mark.paper("mha")
def test_heads_with_fixed_weights_are_a_grouped_convolution_of_the_values(monkeypatch):
    num_heads, d_v, d_model, length = 3, 5, 7, 11
    layer = MultiHeadAttention(d_model, num_heads, d_k=2, d_v=d_v).double()
    convolution = torch.nn.Conv1d(15, 15, 3, padding=1, groups=num_heads, bias=False).double()
    whole = torch.nn.Conv1d(d_model, d_model, 3, padding=1, bias=False).double()
    x, joined = torch.randn(2, length, d_model).double(), []
    layer.output_projection.register_forward_pre_hook(lambda _, inputs: joined.append(inputs[0]))

    def fix(taps):
        """Each head gives the words before, at and after the query its own three weights, whatever the words are."""
        beside = torch.stack([torch.ones(length - abs(o)).diag(o) for o in (-1, 0, 1)]).double()
        weights = torch.einsum("ho,oqk->hqk", taps, beside)
        monkeypatch.setattr(F, "scaled_dot_product_attention", lambda _query, _key, value, _mask: weights @ value)

    taps = torch.rand(num_heads, 3).double()
    fix(taps)
    with torch.no_grad():
        layer(x, x, x)
        # (out, in of the group, offsets): a head has one weight for all its columns and mixes none of them
        convolution.weight.copy_(torch.einsum("ho,cd->hcdo", taps, torch.eye(d_v).double()).flatten(0, 1))
        torch.testing.assert_close(joined[0], convolution(layer.value_projection(x).mT).mT, **DOUBLE)

    fix(torch.eye(3).double())  # head 1 looks one word back, head 2 at the word itself, head 3 one word on
    with torch.no_grad():
        w_output = layer.output_projection.weight.split(d_v, dim=1)
        matrices = [o @ v for o, v in zip(w_output, layer.value_projection.weight.split(d_v), strict=True)]
        whole.weight.copy_(torch.stack(matrices, dim=-1))
        torch.testing.assert_close(layer(x, x, x), whole(x.mT).mT, **DOUBLE)  # of one group


@pytest.mark.paper("mha")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_fused_kernel_equals_the_written_out_form(dtype):
    layer, query, memory = layer_and_inputs(d_model=16, d_k=8, d_v=8)
    layer, query, memory = layer.to(dtype), query.to(dtype), memory.to(dtype)
    mask = random_mask(2, 1, 4, 6)
    mask[0, 0, 2] = False  # nothing to look at
    fused = layer(query, memory, memory, mask)
    recorded = []
    with watch_attention(lambda _, weights: recorded.append(weights)):
        written_out = layer(query, memory, memory, mask)
    assert recorded[0].shape == (2, 3, 4, 6)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(fused, written_out, rtol=tolerance, atol=tolerance)
    assert fused[0, 2].abs().max() == 0


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
    layer = MultiHeadAttention(D_K, 1, 4, 4)
    with pytest.raises(ValueError, match="mask"):
        layer(query[None], key[None], key[None], mask if mask.dim() == 2 else mask[None])


SIZES = {
    MultiHeadAttention: ["d_model", "num_heads", "d_k", "d_v"],
    AdditiveAttention: ["d_query", "d_key", "d_hidden"],
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in SIZES.items() for name in names])
def test_sizes_below_one_are_refused(kind, name):
    with pytest.raises(ValueError, match=name):
        kind(**dict.fromkeys(SIZES[kind], 4) | {name: 0})


@pytest.mark.usefixtures("unchecked")
def test_as_many_values_as_keys_are_asked_for():
    """The fused kernel would read behind the end of the shorter one."""
    attention = MultiHeadAttention(8, 2, 4, 4)
    with pytest.raises(ValueError, match="values"):
        attention.keys_and_values(torch.zeros(1, 3, 8), torch.zeros(1, 4, 8))
