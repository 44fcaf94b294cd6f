"""From logits to a sentence, one token at a time."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Int
from torch import Tensor, nn

from .data.batches import pad_rows
from .data.tokenizers import Tokenizer
from .shapes import SourceIds
from .transformer import Transformer

MAX_SOURCE_TOKENS = 1000  # of one sentence in `translate`; attention's memory grows with the square


@torch.no_grad()
def greedy_decode(
    model: Transformer, source: SourceIds, max_length: int | None = None
) -> Int[Tensor, "batch generated"]:
    """The sentence that grows by the likeliest next token until it chooses `<eos>`.

    Source: section 6.1, the limit of input length + 50 [decode].

    Args:
        source: ids padded with pad_id.
        max_length: most tokens to generate; None: 50 more than each sentence's own length.

    Returns:
        generated ids without `<bos>`, with `<eos>` where it was reached, padding after it.

    Raises:
        ValueError: a max_length below 1, or a source that the model refuses.
    """
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length = {max_length} must be at least 1")
    config = model.config
    with evaluation_mode(model):
        memory = model.encode(source)
        limits = (source != config.pad_id).sum(dim=1) + 50
        if max_length is not None:
            limits = torch.full_like(limits, max_length)
        if config.positions == "learned":
            limits = limits.clamp(max=config.max_positions)
        tokens = source.new_full((source.size(0), 1), config.bos_id)  # (batch, 1), and grows
        open_rows = torch.ones_like(limits, dtype=torch.bool)
        while open_rows.any():
            logits = model.decode(tokens, memory, source)[:, -1]  # (batch, vocabulary)
            logits[:, config.pad_id] = -math.inf  # padding is not a word of the language
            next_token = logits.argmax(dim=-1).where(open_rows, config.pad_id)
            tokens = torch.cat([tokens, next_token[:, None]], dim=1)
            open_rows &= (next_token != config.eos_id) & (tokens.size(1) - 1 < limits)
    return tokens[:, 1:]


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Dropout off inside the `with` block, and as it was after it."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def translate(
    model: Transformer,
    sentences: Sequence[str],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    batch_size: int = 64,
    max_source_tokens: int = MAX_SOURCE_TOKENS,
) -> Iterator[tuple[int, str]]:
    """Translate each sentence; yields its index and its translation, sentences of like length together.

    A sentence without any token gives an empty translation; of a very long one the first max_source_tokens count.
    """
    device = next(model.parameters()).device
    if model.config.positions == "learned":
        max_source_tokens = min(max_source_tokens, model.config.max_positions - 1)  # one place is <eos>'s
    encoded = [source_tokenizer.encode(sentence)[:max_source_tokens] for sentence in sentences]
    for index in (i for i, ids in enumerate(encoded) if not ids):
        yield index, ""
    order = sorted((i for i, ids in enumerate(encoded) if ids), key=lambda i: len(encoded[i]))
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        source = pad_rows([[*encoded[i], model.config.eos_id] for i in chosen], model.config.pad_id)
        for index, ids in zip(chosen, greedy_decode(model, source.to(device)).tolist(), strict=True):
            yield index, target_tokenizer.decode(ids)
