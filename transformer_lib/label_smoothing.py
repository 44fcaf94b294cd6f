"""Cross-entropy against a target that is never quite certain."""

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
        problem = f"target holds only padding (pad_id = {pad_id})"
        raise ValueError(f"{problem}: the mean over no tokens is undefined")
    return token_losses(logits, target, epsilon_ls, pad_id).sum() / real_tokens


def token_losses(
    logits: Float[Tensor, "*positions vocabulary"],
    target: Int[Tensor, "*positions"],
    epsilon_ls: float = 0.1,
    pad_id: int = 0,
) -> Float[Tensor, "*positions"]:
    """The smoothed cross-entropy of each target token in nats; 0 at padding.

        -(1 - ε) · ln p[right] - ε · mean(ln p),  p = softmax(logits)

    The positions are those of a batch, (batch, target), or any list of them.
    Half-precision logits are computed with in float32.

    Raises:
        ValueError: ε out of range, shapes that differ, or an id outside the
            vocabulary.
    """
    check_targets(logits, target, epsilon_ls)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    # The limit keeps 0 · ln 0 and sums over the vocabulary finite.
    log_p = logits.log_softmax(dim=-1, dtype=dtype).clamp(min=-1e30)
    right_token = log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    every_token = log_p.mean(dim=-1)
    losses = -(1 - epsilon_ls) * right_token - epsilon_ls * every_token
    return losses.masked_fill(target == pad_id, 0.0)


def check_targets(logits: Tensor, target: Tensor, epsilon_ls: float) -> None:
    """Raise ValueError for an ε out of range, shapes that differ, or an id outside the vocabulary."""
    check_fraction(epsilon_ls=epsilon_ls)
    if target.shape != logits.shape[:-1]:
        raise ValueError(
            f"target {tuple(target.shape)} and logits {tuple(logits.shape)} "
            "do not belong together: one target for each row of logits"
        )
    if not torch.compiler.is_compiling():
        check_ids("target", target, logits.size(-1), target.dim())
