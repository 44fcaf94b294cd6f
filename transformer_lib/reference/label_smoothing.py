"""The smoothed loss."""

import math

from .attention_as_lookup import softmax


def label_smoothing_loss(logits, target, epsilon_ls, pad_id):
    """Mean of -Σ q ln p over real tokens; q: 1 - ε on the right, ε over all."""
    total, tokens = 0.0, 0
    for sentence, answers in zip(logits, target, strict=True):
        for scores, answer in zip(sentence, answers, strict=True):
            if answer == pad_id:
                continue
            for token, p in enumerate(softmax(list(scores))):
                q = epsilon_ls / len(scores)
                if token == answer:
                    q += 1 - epsilon_ls
                total -= q * math.log(p)
            tokens += 1
    return total / tokens
