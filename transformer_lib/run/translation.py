"""Sentences of text to sentences of text, in batches of like length."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from ..data.batches import pad_rows
from ..data.tokenizers import Tokenizer
from ..decoding import LARGEST_BEAM, Alpha, beam_search, check_beam_size, greedy_decode
from ..transformer import Transformer

MAX_SOURCE_TOKENS = 1000  # of one sentence; attention's memory grows with the square


def longest_source(model: Transformer) -> int:
    """The most tokens of a sentence that `translate` reads, `<eos>` not counted; the rest is cut off."""
    if model.config.positions == "learned":
        return min(MAX_SOURCE_TOKENS, model.config.max_positions - 1)  # one place is <eos>'s
    return MAX_SOURCE_TOKENS


def source_ids(model: Transformer, sentences: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
    """The tokens of each sentence that `model` reads, without `<eos>`. Raises and warns as `translate` does."""
    if isinstance(sentences, str):
        raise TypeError(f"sentences must be a list, got the string {sentences[:20]!r}; put it in brackets")
    for number, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise TypeError(f"sentences[{number}] = {sentence!r} must be a string")
    encoded, limit = [tokenizer.encode(sentence) for sentence in sentences], longest_source(model)
    for i, ids in enumerate(encoded):
        if len(ids) > limit:
            message = f"{sentences[i][:20] + '…'!r} has {len(ids)} tokens; the first {limit} are read"
            warnings.warn(message, stacklevel=3)
            encoded[i] = ids[:limit]
    return encoded


def translate(
    model: Transformer,
    sentences: Sequence[str],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    batch_size: int = 64,
    beam_size: int = 1,
    alpha: Alpha = 0.6,
    shown: Callable[[Iterator[Any]], Iterable[Any]] = iter,
) -> list[str]:
    """One translation for each sentence, in the same order.

    A sentence without any token gives an empty translation. Of one with more than longest_source(model) tokens the
    first are read, and a warning says so.

    Args:
        batch_size: sentences of like length decoded together; fewer where a beam has more than 16 candidates.
        beam_size, alpha: of the beam search; a beam_size of 1 decodes greedily.
        shown: gives the same elements, one for each sentence when it is translated, and shows how many there were.

    Raises:
        TypeError: one string in place of a list, whose letters would be the sentences.
    """
    check_beam_size(beam_size)
    batch_size = max(1, min(batch_size, LARGEST_BEAM // beam_size))
    encoded = source_ids(model, sentences, source_tokenizer)

    def search(chosen: list[int]) -> list[list[int]]:
        source = pad_rows([[*encoded[i], model.config.eos_id] for i in chosen], model.config.pad_id)
        source = source.to(next(model.parameters()).device)
        with torch.inference_mode():  # nothing of it meets autograd again
            tokens = greedy_decode(model, source) if beam_size == 1 else beam_search(model, source, beam_size, alpha)
        return tokens.tolist()

    order = sorted((i for i, ids in enumerate(encoded) if ids), key=lambda i: len(encoded[i]))
    batches = (order[start : start + batch_size] for start in range(0, len(order), batch_size))
    translated = (pair for chosen in batches for pair in zip(chosen, search(chosen), strict=True))
    found = dict(shown(translated))
    return [target_tokenizer.decode(found[i]) if i in found else "" for i in range(len(sentences))]
