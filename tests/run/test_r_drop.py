"""R-Drop: two passes of one batch, their losses and their divergence."""

import pytest
import torch

from transformer_lib import Transformer, TransformerConfig
from transformer_lib.data import make_batch
from transformer_lib.training import batch_loss
from transformer_run import r_drop
from transformer_run.r_drop import r_drop_loss
from transformer_run.update import Update

SIZES = {"num_layers": 1, "d_model": 32, "d_ff": 64, "num_heads": 2, "d_k": 16, "d_v": 16}
BATCH = make_batch([([5, 6, 7], [8, 9]), ([4, 3], [7, 6, 5, 9])])


def model_with(p_drop):
    torch.manual_seed(0)
    return Transformer(TransformerConfig(vocabulary_size=20, p_drop=p_drop, **SIZES))


def test_without_dropout_both_passes_agree_and_the_loss_is_the_papers():
    plain, doubled = (Update(model_with(0.0), r_drop=weight).loss(BATCH, 0.1) for weight in (0.0, 5.0))
    torch.testing.assert_close(doubled, plain)


def test_autocast_rounds_nothing_of_it():
    found = []
    for enabled in (False, True):
        torch.manual_seed(1)
        logits = torch.randn(*BATCH.target_output.repeat(2, 1).shape, 20, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = r_drop_loss(lambda *_, given=logits: given, BATCH, 0.1, 5.0)
        found.append((loss, *torch.autograd.grad(loss, logits)))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_a_gradient_too_small_for_fp16_is_there_when_the_loss_is_scaled():
    target = BATCH.target_output.repeat(2, 1)
    logits = torch.zeros(*target.shape, 20, dtype=torch.float16)
    logits[..., 19] = -17.0
    logits.requires_grad_()
    loss = r_drop_loss(lambda *_: logits, BATCH, 0.0, 5.0)
    (gradient,) = torch.autograd.grad(2.0**16 * loss, logits)
    # The passes agree, so half a probability is left; of a place that is padded nothing.
    expected = 2.0**15 * logits.detach().double().softmax(-1)[..., 19] * (target != 0)
    torch.testing.assert_close(gradient[..., 19].double(), expected, rtol=0.01, atol=0.0)


@pytest.mark.parametrize("epsilon_ls", [0.0, 0.1])
def test_the_second_term_is_the_mean_of_both_divergences(monkeypatch, epsilon_ls):
    model, weight = model_with(0.5), 3.0
    monkeypatch.setattr(r_drop, "ROWS", 4)  # of the six real tokens
    torch.manual_seed(1)
    found = r_drop_loss(model, BATCH, epsilon_ls, weight)
    torch.manual_seed(1)
    logits = model(BATCH.source.repeat(2, 1), BATCH.target_input.repeat(2, 1))
    expected = torch.zeros(())
    for one, two, target in zip(*logits.softmax(-1).chunk(2), BATCH.target_output, strict=True):
        for p, q, right in zip(one, two, target, strict=True):
            if right != 0:
                smoothed = torch.full_like(p, epsilon_ls / len(p))
                smoothed[right] += 1 - epsilon_ls
                nats = -(smoothed * (p.log() + q.log())).sum() / 2
                both = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
                expected = expected + nats + weight / 2 * both / 2
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(3 * loss, list(model.parameters())) for loss in (found, expected)]
    for own, other in zip(*gradients, strict=True):
        torch.testing.assert_close(own, other)
    assert found > batch_loss(model.eval(), BATCH, epsilon_ls)
