import numpy as np
import pytest
import torch
from torch import nn

from transformer_lib import FeedForward, TransformerConfig, reference
from transformer_lib.layers import AddAndNorm

D_MODEL, D_FF = 14, 23
CONFIG = TransformerConfig(vocabulary_size=5, d_model=D_MODEL, d_ff=D_FF, num_heads=2, d_k=7, d_v=7, p_drop=0.0)


def config(**changes):
    return TransformerConfig(**{**vars(CONFIG), **changes})


@pytest.mark.paper("eq-2")
def test_equation_2_equals_the_loops():
    layer = FeedForward(D_MODEL, D_FF).double()
    x = torch.randn(1, 5, D_MODEL).double()
    parameters = (layer.inner.weight.T, layer.inner.bias, layer.outer.weight.T, layer.outer.bias)
    expected = reference.feed_forward(x[0].numpy(), *(p.detach().numpy() for p in parameters))
    np.testing.assert_allclose(layer(x)[0].detach(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "function"), [("gelu", nn.functional.gelu), ("silu", nn.functional.silu)])
def test_other_activations_are_pytorchs(name, function):
    layer, x = FeedForward(D_MODEL, D_FF, name), torch.randn(1, 5, D_MODEL)
    torch.testing.assert_close(layer(x), layer.outer(function(layer.inner(x))))


@pytest.mark.paper("post-norm")
def test_post_norm_normalises_the_sum():
    layer = AddAndNorm(CONFIG)
    x = torch.randn(3, 5, D_MODEL)
    # 2x would not do: the norm takes out a factor, and so the sum
    out = layer(x, torch.square)
    expected = nn.functional.layer_norm(x + x.square(), (D_MODEL,))
    torch.testing.assert_close(out, expected)
    mean, variance = out.mean(-1), out.var(-1, correction=0)
    torch.testing.assert_close(mean, torch.zeros(3, 5), atol=1e-6, rtol=0)
    torch.testing.assert_close(variance, torch.ones(3, 5), atol=1e-3, rtol=0)


@pytest.mark.paper("post-norm")
def test_pre_norm_is_another_function_and_keeps_the_input_on_its_way():
    layer = AddAndNorm(config(norm_order="pre"))
    x = torch.randn(3, 5, D_MODEL)
    assert torch.equal(layer(x, torch.zeros_like), x)
    expected = x + nn.functional.layer_norm(x, (D_MODEL,)).square()  # the norm of a square is another
    torch.testing.assert_close(layer(x, torch.square), expected)


@pytest.mark.paper("post-norm")
@pytest.mark.parametrize("norm_order", ["post", "pre"])
def test_dropout_acts_on_the_sublayer_and_not_on_the_residual(norm_order):
    layer = AddAndNorm(config(p_drop=0.5, norm_order=norm_order))
    layer.norm = nn.Identity()  # the norm of post-norm would hide what was dropped
    x = torch.randn(2, 50, D_MODEL)
    change = layer(x, torch.ones_like) - x  # 0 where dropped, 1 / (1 - 0.5) = 2 elsewhere
    assert set(change.round(decimals=4).unique().tolist()) == {0.0, 2.0}
    assert torch.equal(layer.eval()(x, torch.ones_like) - x, (x + 1) - x)
