"""Perplexity and BLEU."""

import math


def perplexity(log_probabilities):
    """exp of minus the mean log-probability (nats) of the right tokens."""
    total = 0.0
    for log_probability in log_probabilities:
        total += log_probability
    return math.exp(-total / len(log_probabilities))


def count_ngrams(words, n):
    """How often each run of n words occurs."""
    counts = {}
    for start in range(len(words) - n + 1):
        ngram = tuple(words[start : start + n])
        counts[ngram] = counts.get(ngram, 0) + 1
    return counts


def bleu(hypotheses, references, longest=4):
    """Papineni et al. (2002): lists of words, one reference each; 0 to 100."""
    logarithms = 0.0
    for n in range(1, longest + 1):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            allowed = count_ngrams(reference, n)
            for ngram, count in count_ngrams(hypothesis, n).items():
                matches += min(count, allowed.get(ngram, 0))  # clipped
                total += count
        if matches == 0:
            return 0.0
        logarithms += math.log(matches / total) / longest
    said, wanted = sum(map(len, hypotheses)), sum(map(len, references))
    brevity_penalty = 1.0 if said >= wanted else math.exp(1 - wanted / said)
    return 100 * brevity_penalty * math.exp(logarithms)
