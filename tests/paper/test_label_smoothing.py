import math

import pytest
import torch
import torch.nn.functional as F

from transformer_lib import label_smoothing_loss, reference
from transformer_lib.label_smoothing import token_losses

VOCABULARY, PAD = 11, 4
TARGET = torch.tensor([[3, 10, 0, PAD, PAD], [7, 7, 2, 1, PAD]])


def logits(scale=3.0):
    return torch.randn(2, 5, VOCABULARY, dtype=torch.float64) * scale


@pytest.mark.paper("label-smoothing")
@pytest.mark.parametrize("epsilon_ls", [0.0, 0.1, 0.6])
def test_the_loss_equals_the_loops(epsilon_ls):
    z = logits()
    expected = reference.label_smoothing_loss(z.numpy(), TARGET.numpy(), epsilon_ls, PAD)
    assert label_smoothing_loss(z, TARGET, epsilon_ls, PAD).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.paper("label-smoothing")
@pytest.mark.parametrize("epsilon_ls", [0.0, 0.1])
def test_the_loss_equals_pytorchs(epsilon_ls):
    z = logits()
    expected = F.cross_entropy(z.flatten(0, 1), TARGET.flatten(), ignore_index=PAD, label_smoothing=epsilon_ls)
    torch.testing.assert_close(label_smoothing_loss(z, TARGET, epsilon_ls, PAD), expected)


@pytest.mark.paper("label-smoothing")
def test_padding_neither_counts_nor_learns():
    z = logits().requires_grad_()
    changed = z.detach().clone()
    changed[TARGET == PAD] = 1e6
    loss = label_smoothing_loss(z, TARGET, 0.1, PAD)
    torch.testing.assert_close(loss, label_smoothing_loss(changed, TARGET, 0.1, PAD))
    loss.backward()
    assert (z.grad[TARGET == PAD] == 0).all()
    longer = torch.cat([z.detach(), logits()], dim=1)
    more_padding = torch.cat([TARGET, torch.full_like(TARGET, PAD)], dim=1)
    torch.testing.assert_close(label_smoothing_loss(longer, more_padding, 0.1, PAD), loss.detach())


@pytest.mark.paper("label-smoothing")
@pytest.mark.parametrize(
    ("dtype", "extreme"), [(dtype, torch.finfo(dtype).max) for dtype in (torch.float32, torch.float16, torch.bfloat16)]
)
def test_the_loss_is_finite_at_extreme_logits(dtype, extreme):
    z = torch.zeros(2, 5, VOCABULARY, dtype=dtype)
    z[..., 0], z[..., 1] = extreme, -extreme
    z.requires_grad_()
    loss = label_smoothing_loss(z, TARGET, 0.1, PAD)
    loss.backward()
    assert loss.isfinite()
    assert z.grad.isfinite().all()


@pytest.mark.paper("label-smoothing")
def test_without_smoothing_a_forbidden_token_costs_nothing():
    z = torch.tensor([[[1.0, 2.0, -math.inf]]])
    assert label_smoothing_loss(z, torch.tensor([[1]]), 0.0).item() == pytest.approx(math.log(1 + math.exp(-1)))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("shape", "target", "message"),
    [
        ((4, 3, 5), [[1, 2, 3]], "logits"),
        ((1, 3, 5), [[1]], "logits"),
        ((1, 2, 5), [[1, 9]], r"target\[0, 1\]"),
        ((2, 2, 5), [[1, 2], [9, 1]], r"target\[1, 0\]"),
        ((4, 5), [1, 2, 9, 1], r"target\[2\]"),
    ],
)
def test_targets_that_do_not_fit_the_logits_are_refused(shape, target, message):
    with pytest.raises(ValueError, match=message):
        label_smoothing_loss(torch.randn(shape), torch.tensor(target))


@pytest.mark.paper("label-smoothing")
def test_the_gradient_is_the_softmax_minus_the_smoothed_target():
    z = logits().requires_grad_()
    real = TARGET != PAD
    label_smoothing_loss(z, TARGET, 0.1, PAD).backward()
    smoothed = 0.9 * F.one_hot(TARGET, VOCABULARY) + 0.1 / VOCABULARY
    difference = z.detach().softmax(-1) - smoothed
    expected = difference * real[..., None] / real.sum()
    torch.testing.assert_close(z.grad, expected.to(z.dtype))


def test_a_list_of_positions_has_the_losses_of_its_batch():
    z = logits()
    real = TARGET != PAD
    torch.testing.assert_close(token_losses(z[real], TARGET[real], 0.1, PAD), token_losses(z, TARGET, 0.1, PAD)[real])


def test_a_bad_epsilon_and_an_empty_target_are_refused():
    with pytest.raises(ValueError, match="epsilon_ls"):
        label_smoothing_loss(logits(), TARGET, 1.0, PAD)
    with pytest.raises(ValueError, match="padding"):
        label_smoothing_loss(logits(), torch.full_like(TARGET, PAD), 0.1, PAD)


@pytest.mark.paper("label-smoothing")
def test_without_an_epsilon_the_papers_is_taken():
    z = logits()
    assert torch.equal(label_smoothing_loss(z, TARGET, pad_id=PAD), label_smoothing_loss(z, TARGET, 0.1, PAD))
