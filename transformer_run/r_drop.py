"""R-Drop, a method of 2021: two passes of one batch, which differ by their dropout alone, shall agree."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from transformer_lib.data.batches import Batch
from transformer_lib.shapes import Scalar

ROWS = 64  # on a CPU, target tokens at a time: their logits stay in its cache


def r_drop_loss(forward: Callable[..., Tensor], batch: Batch, epsilon_ls: float, weight: float) -> Scalar:
    """The mean of the losses of two passes, and their divergence; in nats.

    The second term, which the paper does not have, asks both passes for the
    same distribution.

        loss = (loss_1 + loss_2) / 2 + weight / 2 · D
        D = (KL(p_1 ‖ p_2) + KL(p_2 ‖ p_1)) / 2 = Σ (p_1 - p_2) · ln(p_1 / p_2) / 2

    summed over all real target tokens. Source: Liang et al. (2021), their
    equation (4), halved, as Adam does not feel a constant factor.

    Differs from the paper, whose loss is loss_1.
    """
    # Both passes are one batch of twice the size: its dropout differs.
    logits = forward(batch.source.repeat(2, 1), batch.target_input.repeat(2, 1))
    return RDrop.apply(logits, batch.target_output, epsilon_ls, weight, batch.special_ids[0])


class RDrop(torch.autograd.Function):
    """The loss, and its gradient by the logits of one pass; the other's is the same with 1 and 2 exchanged.

        gradient_1 = (p_1 - q) / 2 + weight / 4 · (p_1 · (ln(p_1 / p_2) - KL(p_1 ‖ p_2)) + p_1 - p_2)

    q: the smoothed target. Both are computed at once, for some tokens at a time:
    autograd would keep a dozen arrays of the size of the logits.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Float[Tensor, "twice length vocabulary"],
        target: Int[Tensor, "batch length"],
        epsilon_ls: float,
        weight: float,
        pad_id: int,
    ) -> Scalar:
        """The loss of all real tokens, in nats."""
        flat, right, w, size = logits.flatten(0, 1), target.flatten(), weight / 4, logits.size(-1)
        # In fp16 a probability is too small for the format until the loss is scaled.
        kept = torch.float32 if logits.dtype == torch.float16 else logits.dtype
        gradient, loss = torch.zeros_like(flat, dtype=kept), 0.0
        real = (right != pad_id).nonzero().squeeze(-1)
        for rows in real.split(ROWS if logits.device.type == "cpu" else len(real)):
            both = torch.stack((rows, rows + len(right)))  # the same tokens in both passes
            own = right[rows].expand(2, -1).unsqueeze(-1)
            log_p = flat[both].log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
            p, ratio = log_p.exp(), log_p - log_p.flip(0)
            divergence = torch.linalg.vecdot(p, ratio).unsqueeze(-1)
            nats = (epsilon_ls - 1) * log_p.gather(-1, own).sum() - epsilon_ls / size * log_p.sum()
            loss = loss + nats / 2 + w * divergence.sum()
            part = torch.add(0.5 + w - w * divergence, ratio, alpha=w).mul_(p).sub_(p.flip(0), alpha=w)
            part.sub_(epsilon_ls / size / 2).scatter_add_(
                -1, own, torch.full_like(own, (epsilon_ls - 1) / 2, dtype=part.dtype)
            )
            gradient[both] = part.to(kept)
        ctx.save_for_backward(gradient.view_as(logits))
        ctx.dtype = logits.dtype
        return torch.as_tensor(loss)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *gradients: Scalar
    ) -> tuple[Tensor, None, None, None, None]:
        """The gradient by the logits, for that of the loss."""
        return (ctx.saved_tensors[0] * gradients[0]).to(ctx.dtype), None, None, None, None
