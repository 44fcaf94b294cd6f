import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny_models import random_mask

from transformer_lib import MultiHeadAttention, reference
from transformer_lib.fast import watch_attention

DOUBLE = {"rtol": 1e-12, "atol": 1e-12}


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


@pytest.mark.usefixtures("unchecked")
def test_as_many_values_as_keys_are_asked_for():
    """The fused kernel would read behind the end of the shorter one."""
    attention = MultiHeadAttention(8, 2, 4, 4)
    with pytest.raises(ValueError, match="values"):
        attention.keys_and_values(torch.zeros(1, 3, 8), torch.zeros(1, 4, 8))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("shape", "dtype"), [((3, 5), torch.float32), ((5, 3), torch.bool), ((2, 1, 3, 5), torch.bool)]
)
def test_a_mask_of_the_wrong_kind_is_refused(shape, dtype):
    query, memory = torch.randn(1, 3, 7), torch.randn(1, 5, 7)
    with pytest.raises(ValueError, match="mask"):
        MultiHeadAttention(7, 1, 4, 4)(query, memory, memory, torch.ones(shape, dtype=dtype))
