"""Greedy search, beam search, and every sentence."""


def length_penalty(length, alpha):
    """Wu et al. (2016): 1 at a length of 1, and growing with it."""
    return ((5 + length) / 6) ** alpha


def greedy_search(log_probabilities, bos_id, eos_id, pad_id, limit):
    """The likeliest next token, again and again -> (log-probability, tokens).

    log_probabilities: from the tokens so far to that of each next token.
    """
    total, tokens = 0.0, [bos_id]
    while len(tokens) <= limit and tokens[-1] != eos_id:
        choices = log_probabilities(tokens)
        best = max(
            (token for token in range(len(choices)) if token != pad_id),
            key=lambda token: choices[token],
        )
        total += choices[best]
        tokens.append(best)
    return total, tokens[1:]


def beam_search(
    log_probabilities,
    bos_id,
    eos_id,
    pad_id,
    beam_size,
    alpha,
    limit,
):
    """Section 6.1 for one sentence -> [(score, tokens)], best first.

    log_probabilities: from the tokens so far to that of each next token.
    """
    beam, finished = [(0.0, [bos_id])], []
    for length in range(1, limit + 1):
        extensions = []
        for total, tokens in beam:
            for token, log_p in enumerate(log_probabilities(tokens)):
                if token != pad_id:
                    extensions.append((total + log_p, [*tokens, token]))
        extensions.sort(key=lambda extension: -extension[0])
        penalty = length_penalty(length, alpha)
        for total, tokens in extensions[:beam_size]:
            if tokens[-1] == eos_id:
                finished.append((total / penalty, tokens[1:]))
        beam = [e for e in extensions if e[1][-1] != eos_id][:beam_size]
        if length == limit:
            finished += [(t / penalty, tokens[1:]) for t, tokens in beam]
        finished.sort(key=lambda hypothesis: -hypothesis[0])
        finished = finished[:beam_size]
        best_open = beam[0][0] / penalty
        if len(finished) == beam_size and finished[-1][0] >= best_open:
            break
    return finished


def every_sentence(log_probabilities, bos_id, eos_id, pad_id, alpha, limit):
    """Every output of at most `limit` tokens with its score, best first.

    No beam can improve on the first.
    """
    finished, unfinished = [], [(0.0, [bos_id])]
    while unfinished:
        total, tokens = unfinished.pop()
        length = len(tokens) - 1
        if length > 0 and (tokens[-1] == eos_id or length == limit):
            finished.append((total / length_penalty(length, alpha), tokens[1:]))
            continue
        for token, log_probability in enumerate(log_probabilities(tokens)):
            if token != pad_id:
                unfinished.append((total + log_probability, [*tokens, token]))
    return sorted(finished, key=lambda hypothesis: -hypothesis[0])
