"""Cross-entropy against a target that is never quite certain."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .config import check_fraction
from .embeddings import check_ids
from .shapes import Logits, Scalar, TargetIds


def label_smoothing_loss(
    logits: Logits,
    target: TargetIds,
    epsilon_ls: float = 0.1,
    pad_id: int = 0,
) -> Scalar:
    """Mean over the real target tokens of the smoothed cross-entropy, in nats.

    The smoothed target puts 1 - ε on the right token and spreads ε evenly over
    the whole vocabulary (Szegedy et al., 2016);
    `torch.nn.CrossEntropyLoss(label_smoothing=ε)` means the same.

    Source: section 5.4 [label-smoothing].

    Args:
        epsilon_ls: ε, in [0, 1); 0 gives the plain cross-entropy.

    Raises:
        ValueError: a target of padding alone, or as token_losses does.
    """
    real_tokens = (target != pad_id).sum()
    if not torch.compiler.is_compiling() and real_tokens == 0:
        found = f"target holds only padding (pad_id = {pad_id})"
        raise ValueError(f"{found}: the mean over no tokens is undefined")
    return token_losses(logits, target, epsilon_ls, pad_id).sum() / real_tokens


def token_losses(
    logits: Float[Tensor, "*positions vocabulary"],
    target: Int[Tensor, "*positions"],
    epsilon_ls: float = 0.1,
    pad_id: int = 0,
) -> Float[Tensor, "*positions"]:
    """The smoothed cross-entropy of each target token in nats; 0 at padding.

    The positions are those of a batch, (batch, target), or any list of them.
    Half-precision logits are computed with in float32.

    Raises:
        ValueError: ε out of range, shapes that differ, or an id outside the
            vocabulary.
    """
    check_fraction(epsilon_ls=epsilon_ls)
    if target.shape != logits.shape[:-1]:
        raise ValueError(
            f"target {tuple(target.shape)} and logits {tuple(logits.shape)} "
            "do not belong together: one target for each row of logits"
        )
    if not torch.compiler.is_compiling():
        rows = target if target.dim() == 2 else target.flatten()[None]
        check_ids("target", rows, logits.size(-1))
    losses = SmoothedCrossEntropy.apply(logits, target, epsilon_ls)
    return losses.masked_fill(target == pad_id, 0.0)


class SmoothedCrossEntropy(torch.autograd.Function):
    """The loss of each position, and its gradient by the logits.

        loss     = -(1 - ε) · ln p[right] - ε · mean(ln p),  p = softmax(logits)
        gradient = p - q,  q = (1 - ε) · one-hot(right) + ε / vocabulary

    The array of logits is the largest of a training step. Autograd would make
    further arrays of its size for the operations above.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Float[Tensor, "*positions vocabulary"],
        target: Int[Tensor, "*positions"],
        epsilon_ls: float,
    ) -> Float[Tensor, "*positions"]:
        """One loss for each position, in nats."""
        dtype = torch.promote_types(logits.dtype, torch.float32)
        # The limit keeps 0 · ln 0 and sums over the vocabulary finite.
        log_p = logits.log_softmax(dim=-1, dtype=dtype).clamp_(min=-1e30)
        ctx.save_for_backward(log_p, target)
        ctx.epsilon_ls, ctx.dtype = epsilon_ls, logits.dtype
        right_token = log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        every_token = log_p.mean(dim=-1)
        return -(1 - epsilon_ls) * right_token - epsilon_ls * every_token

    @staticmethod
    def backward(
        ctx: Any,
        *gradients: Float[Tensor, "*positions"],
    ) -> tuple[Tensor, None, None]:
        """The gradient by the logits, for that of each loss."""
        log_p, target = ctx.saved_tensors
        gradient = log_p.exp().sub_(ctx.epsilon_ls / log_p.size(-1))
        right = target.unsqueeze(-1)
        own = gradient.new_full((), ctx.epsilon_ls - 1).expand(right.shape)
        gradient.scatter_add_(-1, right, own)
        gradient.mul_(gradients[0].unsqueeze(-1))
        return gradient.to(ctx.dtype), None, None
