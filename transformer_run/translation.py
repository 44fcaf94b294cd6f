"""Sentences of text to sentences of text, in batches of like length."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from torch import Tensor

from transformer_lib.data.batches import pad_rows
from transformer_lib.data.tokenizers import Tokenizer
from transformer_lib.decoding import (
    LARGEST_BEAM,
    PAPERS_ALPHA,
    Alpha,
    Hypothesis,
    beam_hypotheses,
    beam_search,
    check_beam_size,
    greedy_decode,
    length_penalty,
    longest_source,
)
from transformer_lib.transformer import Transformer

Found = TypeVar("Found")


def source_ids(model: Transformer, sentences: Iterable[str], tokenizer: Tokenizer) -> list[list[int]]:
    """The tokens of each sentence that `model` reads, without `<eos>`. Raises and warns as `translate` does."""
    if isinstance(sentences, str):
        raise TypeError(f"sentences must be a list, got the string {sentences[:20]!r}; put it in brackets")
    sentences = list(sentences)  # also of a generator, or of an open file
    for number, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise TypeError(f"sentences[{number}] = {sentence!r} must be a string")
    encoded, limit = [tokenizer.encode(sentence) for sentence in sentences], longest_source(model.config)
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
    alpha: Alpha = PAPERS_ALPHA,
    shown: Callable[[Iterator[Any]], Iterable[Any]] = iter,
) -> list[str]:
    """The best translation for each sentence, in the same order.

    A sentence without any token gives an empty translation. Of one with more tokens than longest_source(config)
    the first are read, and a warning says so.

    Args:
        batch_size: sentences of like length decoded together; fewer where a beam has more than 16 candidates.
        beam_size, alpha: of the beam search; a beam_size of 1 decodes greedily.
        shown: gives the same elements, one for each sentence when it is translated, and shows how many there were.

    Raises:
        TypeError: one string in place of a list, whose letters would be the sentences.
    """

    def search(source: Tensor) -> list[list[int]]:
        tokens = greedy_decode(model, source) if beam_size == 1 else beam_search(model, source, beam_size, alpha)
        return tokens.tolist()

    found = _searched(model, sentences, source_tokenizer, search, batch_size, beam_size, shown)
    return [target_tokenizer.decode(found[i]) if i in found else "" for i in range(len(sentences))]


def hypotheses(
    model: Transformer,
    sentences: Sequence[str],
    source_tokenizer: Tokenizer,
    beam_size: int,
    alpha: Alpha,
    shown: Callable[[Iterator[Any]], Iterable[Any]] = iter,
    batch_size: int = 64,
) -> list[list[Hypothesis]]:
    """The finished candidates of each sentence, at most beam_size, best first; none of one without any token.

    Arguments and errors are those of translate.
    """

    def search(source: Tensor) -> list[list[Hypothesis]]:
        if beam_size > 1:
            return beam_hypotheses(model, source, beam_size, alpha)
        greedy = (ranked[0] for ranked in beam_hypotheses(model, source, 1, 0.0))
        penalised = ((h, h.log_probability / length_penalty(len(h.tokens), alpha)) for h in greedy)
        return [[Hypothesis(h.tokens, h.log_probability, score)] for h, score in penalised]

    found = _searched(model, sentences, source_tokenizer, search, batch_size, beam_size, shown)
    return [found.get(i, []) for i in range(len(sentences))]


def _searched(
    model: Transformer,
    sentences: Sequence[str],
    tokenizer: Tokenizer,
    search: Callable[[Tensor], list[Found]],
    batch_size: int,
    beam_size: int,
    shown: Callable[[Iterator[Any]], Iterable[Any]],
) -> dict[int, Found]:
    """What the search finds for each sentence that has tokens, by its place."""
    check_beam_size(beam_size)
    batch_size = max(1, min(batch_size, LARGEST_BEAM // beam_size))
    encoded = source_ids(model, sentences, tokenizer)

    def searched(chosen: list[int]) -> list[Found]:
        source = pad_rows([[*encoded[i], model.config.eos_id] for i in chosen], model.config.pad_id)
        return search(source.to(next(model.parameters()).device))

    order = sorted((i for i, ids in enumerate(encoded) if ids), key=lambda i: len(encoded[i]))
    batches = (order[start : start + batch_size] for start in range(0, len(order), batch_size))
    translated = (pair for chosen in batches for pair in zip(chosen, searched(chosen), strict=True))
    return dict(shown(translated))
