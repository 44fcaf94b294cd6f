"""R-Drop, a method of 2021: two passes of one batch, which differ by their dropout alone, shall agree."""

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.data.batches import Batch
from transformer_lib.shapes import Scalar

ROWS = 64  # on a CPU, target tokens at a time: their logits stay in its cache


def r_drop_loss(forward: Callable[..., Tensor], batch: Batch, epsilon_ls: float, weight: float) -> Scalar:
    """The mean of the losses of two passes, and their divergence; in nats.

    The second term, which the paper does not have, asks both for the same distribution.

        loss = (loss_1 + loss_2) / 2 + weight / 2 · D
        D = (KL(p_1 ‖ p_2) + KL(p_2 ‖ p_1)) / 2 = Σ (p_1 - p_2) · ln(p_1 / p_2) / 2

    summed over all real target tokens. Source: Liang et al. (2021), their equation (4), halved, as Adam does not feel
    a constant factor. The gradient by the logits of pass 1, q being the smoothed target; for pass 2 exchange 1 and 2:

        (p_1 - q) / 2 + weight / 4 · (p_1 · (ln(p_1 / p_2) - KL(p_1 ‖ p_2)) + p_1 - p_2)

    Differs from the paper, whose loss is loss_1.
    """
    # Both passes are one batch of twice the size: its dropout differs.
    logits = forward(batch.source.repeat(2, 1), batch.target_input.repeat(2, 1)).flatten(0, 1)
    target, pull, size = batch.target_output.flatten(), weight / 4, logits.size(-1)
    # A small probability has no place in fp16 before the loss is scaled.
    kept = torch.float32 if logits.dtype == torch.float16 else logits.dtype
    loss, gradient = logits.new_zeros((), dtype=torch.float32), torch.zeros_like(logits, dtype=kept)
    real = (target != batch.special_ids[0]).nonzero().squeeze(-1)
    # Autograd would keep a dozen arrays of the size of the logits.
    with torch.no_grad():
        for rows in real.split(ROWS if logits.device.type == "cpu" else len(real)):
            both = torch.stack((rows, rows + len(target)))  # the same tokens in the two passes
            right = target[rows].expand(2, -1).unsqueeze(-1)
            log_p = logits[both].log_softmax(-1, dtype=torch.float32)
            p, ratio = log_p.exp(), log_p - log_p.flip(0)
            divergence = (p * ratio).sum(-1, keepdim=True)  # autocast would run a dot product in 16 bits
            nats = (epsilon_ls - 1) * log_p.gather(-1, right).sum() - epsilon_ls / size * log_p.sum()
            loss += nats / 2 + pull * divergence.sum()
            part = torch.add(0.5 + pull - pull * divergence, ratio, alpha=pull).mul_(p).sub_(p.flip(0), alpha=pull)
            part -= epsilon_ls / size / 2
            part.scatter_add_(-1, right, part.new_full((), (epsilon_ls - 1) / 2).expand(right.shape))
            gradient[both] = part.to(kept)
    nothing = (logits * gradient).sum()  # whose gradient by the logits is this one
    return loss + nothing - nothing.detach()
