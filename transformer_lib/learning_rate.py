"""The learning rate: equation (3)."""

from .config import check_positive


def learning_rate(
    step_num: int,
    d_model: int,
    warmup_steps: int = 4000,
) -> float:
    """Rises linearly to step warmup_steps, then falls as 1 / √step_num.

        lrate = d_model^-0.5 · min(step_num^-0.5, step_num · warmup_steps^-1.5)

    Source: equation (3), section 5.3 [eq-3].

    Args:
        step_num: from 1.

    Raises:
        ValueError: a step_num, d_model or warmup_steps below 1.
    """
    check_positive(
        step_num=step_num,
        d_model=d_model,
        warmup_steps=warmup_steps,
    )
    return d_model**-0.5 * min(step_num**-0.5, step_num * warmup_steps**-1.5)
