"""R-Drop, a second term of the loss that the paper does not have.

Two forward passes of one batch differ by their dropout alone. The term asks both for the same distribution.
"""

from collections.abc import Callable

from torch import Tensor

from transformer_lib.data.batches import Batch
from transformer_lib.fast import token_losses
from transformer_lib.shapes import Scalar


def r_drop_loss(
    forward: Callable[..., Tensor],
    batch: Batch,
    epsilon_ls: float,
    weight: float,
) -> Scalar:
    """The mean of the losses of two passes, and their divergence; in nats.

        loss = (loss_1 + loss_2) / 2 + weight / 2 · D
        D = (KL(p_1 ‖ p_2) + KL(p_2 ‖ p_1)) / 2 = Σ (p_1 - p_2) · ln(p_1 / p_2) / 2

    summed over all real target tokens. Source: Liang et al. (2021), their
    equation (4), halved, as Adam does not feel a constant factor.

    Differs from the paper, whose loss is loss_1.
    """
    # Both passes are one batch of twice the size: its dropout differs.
    target = batch.target_output.repeat(2, 1)
    pad_id = batch.special_ids[0]
    real = target != pad_id
    twice = batch.source.repeat(2, 1), batch.target_input.repeat(2, 1)
    logits = forward(*twice)[real]  # (2 · real tokens, vocabulary)
    losses = token_losses(logits, target[real], epsilon_ls, pad_id)
    log_p = logits.float().log_softmax(dim=-1)
    first, second = log_p.chunk(2)  # (real tokens, vocabulary)
    divergence = (first.exp() - second.exp()) * (first - second) / 2
    return losses.sum() / 2 + weight / 2 * divergence.sum()
