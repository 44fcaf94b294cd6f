"""Words to pieces, sentences to batches."""

import itertools

import numpy as np


def byte_pair_merges(words, num_merges):
    """The pairs of pieces that byte-pair encoding joins, in order.

    Each time, the pair that stands side by side most often. A tie goes to the
    pair of older pieces: characters in alphabetical order, then joined ones.
    """
    texts = [list(word) for word in words]
    pieces = sorted({character for word in words for character in word})
    merges = []
    while len(merges) < num_merges:
        counts = {}
        for text in texts:
            for pair in itertools.pairwise(text):
                counts[pair] = counts.get(pair, 0) + 1
        best = pair = None
        for (left, right), count in counts.items():
            rank = (-count, pieces.index(left), pieces.index(right))
            if best is None or rank < best:
                best, pair = rank, (left, right)
        if pair is None:
            break
        merges.append(pair)
        pieces.append(pair[0] + pair[1])
        texts = [join(text, pair) for text in texts]
    return merges


def join(text, pair):
    """The pieces of a text, with this pair joined wherever it stands."""
    joined, i = [], 0
    while i < len(text):
        if tuple(text[i : i + 2]) == pair:
            joined.append(text[i] + text[i + 1])
            i += 2
        else:
            joined.append(text[i])
            i += 1
    return joined


def byte_pair_pieces(word, merges):
    """A word cut into pieces: the earliest merge first, till none fits."""
    pieces = list(word)
    while True:
        pairs = set(itertools.pairwise(pieces))
        possible = [merge for merge in merges if merge in pairs]
        if not possible:
            return pieces
        pieces = join(pieces, possible[0])


def padded_batch(pairs, pad_id, bos_id, eos_id):
    """Pairs of lists of ids -> source, target_input, target_output."""
    source_width = max(len(source) for source, _ in pairs) + 1
    target_width = max(len(target) for _, target in pairs) + 1
    source_rows = np.full((len(pairs), source_width), pad_id)
    target_input = np.full((len(pairs), target_width), pad_id)
    target_output = np.full((len(pairs), target_width), pad_id)
    for row, (source, target) in enumerate(pairs):
        for i, token in enumerate(source):
            source_rows[row, i] = token
        source_rows[row, len(source)] = eos_id
        target_input[row, 0] = bos_id
        for i, token in enumerate(target):
            target_input[row, i + 1] = token
            target_output[row, i] = token
        target_output[row, len(target)] = eos_id
    return source_rows, target_input, target_output
