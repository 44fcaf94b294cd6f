"""Each faster form equals its plain one, and training takes them."""

import inspect
import math

import pytest
import tiny_models
import torch
import torch.nn.functional as F

from transformer_lib import MultiHeadAttention, fast, label_smoothing
from transformer_lib.config import TrainingConfig
from transformer_lib.data import make_batch
from transformer_lib.training import adam, train

TARGET = torch.tensor([[4, 7, 2, 0], [9, 2, 0, 0]])  # 0 is padding


@pytest.mark.parametrize("epsilon_ls", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_losses_and_their_gradient_are_those_of_the_plain_form(epsilon_ls, dtype):
    found = []
    values = 3 * torch.randn(2, 4, 11, dtype=torch.float64)
    for form in (label_smoothing.token_losses, fast.token_losses):
        logits = values.to(dtype).requires_grad_()
        losses = form(logits, TARGET, epsilon_ls, 0)
        (losses * torch.arange(8.0).view(2, 4)).sum().backward()
        found.append((losses.detach(), logits.grad))
    torch.testing.assert_close(*(losses for losses, _ in found))
    torch.testing.assert_close(*(gradient for _, gradient in found))


@pytest.mark.parametrize("extreme", [torch.finfo(torch.float32).max, math.inf])
def test_the_fast_losses_stay_finite_where_the_plain_ones_do(extreme):
    logits = torch.zeros(1, 1, 5)
    logits[..., 3] = -extreme
    target = torch.tensor([[1]])
    plain, quick = (form(logits, target, 0.0, 0) for form in (label_smoothing.token_losses, fast.token_losses))
    torch.testing.assert_close(plain, quick)
    assert quick.isfinite().all()


def test_training_takes_the_fast_forms_and_leaves_the_model_and_the_random_numbers_as_they_were(monkeypatch):
    used, apply = [], fast.SmoothedCrossEntropy.apply
    monkeypatch.setattr(fast.SmoothedCrossEntropy, "apply", lambda *given: used.append(1) or apply(*given))
    model, config = tiny_models.model(p_drop=0.5), TrainingConfig(num_steps=1, warmup_steps=1)
    parts, before = dict(model.named_modules()), torch.get_rng_state()
    list(train(model, adam(model, config), [make_batch([([3, 4], [5, 6])])], config))
    assert used == [1]
    assert dict(model.named_modules()) == parts
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.paper("eq-1")
def test_in_bfloat16_the_kernel_and_the_formula_agree_with_their_gradients(monkeypatch):
    layer = MultiHeadAttention(16, 2, 8, 8).bfloat16()
    states = torch.randn(3, 7, 16, dtype=torch.bfloat16)
    mask = torch.rand(3, 1, 7, 7) > 0.3
    found = []
    for limit in (fast.WRITTEN_OUT, 0):  # 0: the kernel always
        monkeypatch.setattr(fast, "WRITTEN_OUT", limit)
        layer.zero_grad()
        output = layer(states, states, states, mask)
        output.float().square().sum().backward()
        found.append([output.detach().float(), *(w.grad.float() for w in layer.parameters())])
    for written_out, kernel in zip(*found, strict=True):
        torch.testing.assert_close(written_out, kernel, rtol=0.05, atol=0.03 * float(kernel.abs().max()))


def test_the_fast_loss_has_the_defaults_of_the_plain_one():
    ours, plain = (inspect.signature(module.token_losses).parameters.values() for module in (fast, label_smoothing))
    assert [(p.name, p.default) for p in ours] == [(p.name, p.default) for p in plain]


def test_the_closed_gradient_has_no_derivative_of_its_own():
    logits = torch.randn(2, 5, requires_grad=True)
    loss = fast.token_losses(logits, torch.tensor([1, 2])).square().sum()
    (gradient,) = torch.autograd.grad(loss, logits, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("dtype", "gradients", "keys", "written_out"),
    [
        (torch.bfloat16, True, fast.WRITTEN_OUT, True),
        (torch.bfloat16, True, fast.WRITTEN_OUT + 1, False),
        (torch.bfloat16, False, 4, False),
        (torch.float32, True, 4, False),
    ],
)
def test_attention_is_written_out_where_the_kernels_backward_pass_is_slow(
    monkeypatch, dtype, gradients, keys, written_out
):
    called, kernel = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *given: called.append("kernel") or kernel(*given))
    layer = MultiHeadAttention(4, 1, 2, 2).to(dtype)
    states = torch.zeros(1, keys, 4, dtype=dtype)
    with torch.set_grad_enabled(gradients):
        layer(states[:, :1], states, states)
    assert called == ([] if written_out else ["kernel"])
