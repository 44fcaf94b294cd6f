"""One step of Adam."""

import math


def adam_step(weight, gradient, m, v, t, rate, beta1=0.9, beta2=0.98):
    """Kingma and Ba (2015): step t of one weight -> it and both averages."""
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient**2
    mean, mean_square = m / (1 - beta1**t), v / (1 - beta2**t)
    return weight - rate * mean / (math.sqrt(mean_square) + 1e-9), m, v
