"""Equation (3)."""

import math


def learning_rate(step_num, d_model, warmup_steps):
    """Equation (3): a line to warmup_steps, then an inverse square root."""
    peak = 1 / math.sqrt(d_model * warmup_steps)
    if step_num <= warmup_steps:
        return peak * step_num / warmup_steps
    return peak * math.sqrt(warmup_steps / step_num)
