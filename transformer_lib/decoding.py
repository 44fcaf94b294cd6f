"""From logits to a sentence, one token at a time: greedy and beam search."""

import math
import numbers
from bisect import insort
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .cache import start_decoding
from .config import TransformerConfig, check_positive
from .data.batches import pad_rows
from .embeddings import check_tensor
from .fast import watcher
from .own_parts import are_untouched
from .shapes import SourceIds
from .transformer import Transformer, evaluation_mode, parts, record_attention

# Of the length penalty: the paper's exponent, or the score per token, log P / |Y|.
Alpha = float | Literal["length"]
EXTRA = 50  # tokens that a translation may have more than its source (section 6.1)
PAPERS_ALPHA = 0.6  # section 6.1
LARGEST_BEAM = 1024  # candidates; the memory of a mask grows with the square
MAX_SOURCE_TOKENS = 1000  # of one sentence of a text; attention's memory grows with the square


def greedy_decode(
    model: Transformer,
    source: SourceIds,
    max_length: int | None = None,
) -> Int[Tensor, "batch generated"]:
    """The sentence that grows by the likeliest next token until `<eos>`.

    Source: section 6.1, the limit of input length + 50 [decode].

    Args:
        source: ids padded with pad_id.
        max_length: most tokens to generate; None: 50 more than each sentence's
            own length. Learned positions set a limit of their own.

    Returns:
        generated ids without `<bos>`, with `<eos>` where it was reached, and
        padding after it.

    Raises:
        ValueError: a max_length below 1, a source that the model refuses, or
            logits that are not finite.
        TypeError: a list in place of a tensor.
    """
    config = model.config
    with decoding_mode(model):
        limits = length_limits(model, source, max_length)
        longest = int(limits.max())
        cache = start_decoding(model, source, longest)
        generated = source.new_full((len(source), longest), config.pad_id)
        rows = torch.arange(len(source), device=source.device)  # still open
        tokens = source.new_full((len(source), 1), config.bos_id)
        while len(rows) > 0:
            # (open sentences, vocabulary)
            logits = cache.next_logits(tokens)[:, -1]
            logits[:, config.pad_id] = -math.inf  # not a word of the language
            best, tokens = logits.max(dim=-1, keepdim=True)
            check_finite(best)
            generated[rows, cache.length - 1] = tokens[:, 0]
            ended = tokens[:, 0] == config.eos_id
            still_open = ~ended & (cache.length < limits)
            if not still_open.all():  # A finished sentence leaves the batch.
                rows, tokens = rows[still_open], tokens[still_open]
                limits = limits[still_open]
                cache.keep(still_open)
    return generated[:, : cache.length].clone()  # made outside that mode: training can use it


@contextmanager
def decoding_mode(model: Transformer) -> Iterator[None]:
    """No dropout and no gradients inside the `with` block.

    PyTorch's inference mode is faster, and training cannot use its tensors. It is on where nobody keeps one: every part
    is the library's or PyTorch's, without hooks, and nobody records attention.
    """
    every = parts(model)
    packages = {kind.__module__.partition(".")[0] for kind in set(map(type, every))}
    kept = packages - {"torch", __name__.partition(".")[0]} or watcher() or not are_untouched(every)
    with evaluation_mode(model), (torch.no_grad if kept else torch.inference_mode)():
        yield


def longest_source(config: TransformerConfig) -> int:
    """The most tokens of a sentence of a text that are read, `<eos>` not counted; the rest is cut off."""
    if config.positions == "learned":
        return min(MAX_SOURCE_TOKENS, config.max_positions - 1)  # one place is <eos>'s
    return MAX_SOURCE_TOKENS


def longest_output(config: TransformerConfig) -> int:
    """The most tokens that are written for one sentence of a text: those of the longest source with `<eos>`, and 50."""
    return longest_source(config) + 1 + EXTRA if config.positions == "sinusoidal" else config.max_positions


def length_limits(model: Transformer, source: SourceIds, max_length: int | None) -> Int[Tensor, " batch"]:
    """The most tokens that each sentence may grow to: max_length, or its input's length + 50 (section 6.1)."""
    check_tensor("source", source)
    if len(source) == 0:
        raise ValueError("source has no sentences: decoding needs at least one")
    limits = (source != model.config.pad_id).sum(dim=-1) + EXTRA
    if max_length is not None:
        check_positive(max_length=max_length)
        limits = torch.full_like(limits, max_length)
    if model.config.positions == "learned":
        limits = limits.clamp(max=model.config.max_positions)
    return limits


def check_finite(best: Tensor) -> None:
    """Raise ValueError where even the likeliest token's logit is NaN or infinite."""
    if not best.isfinite().all():
        remedy = "load an earlier checkpoint, or decode in float32 if the logits overflow in half precision"
        raise ValueError(f"the logits are not finite. The weights probably diverged in training: {remedy}")


def length_penalty(length: int, alpha: Alpha) -> float:
    """The divisor of a hypothesis's log-probability. It lets long hypotheses compete with short ones.

        lp(Y) = ((5 + |Y|) / 6)^alpha

    Source: section 6.1, after Wu et al. (2016) [decode].

    Args:
        length: |Y|, in tokens, `<eos>` included.
        alpha: 0 divides by 1; "length" divides by |Y|, as other toolkits do.
    """
    if alpha == "length":
        return float(length)
    return ((5 + length) / 6) ** alpha


def check_alpha(alpha: Alpha) -> None:
    """Raise ValueError unless alpha is a number from 0 to 100, or "length"."""
    if alpha == "length" or (isinstance(alpha, numbers.Real) and 0 <= alpha <= 100):  # more would overflow
        return
    wanted = f"must be a number from 0 to 100, or 'length'; the paper's is {PAPERS_ALPHA}"
    raise ValueError(f"alpha = {alpha!r} {wanted}")


@dataclass(frozen=True)
class Hypothesis:
    """One finished candidate of a beam search."""

    tokens: list[int]  # without <bos>, with <eos> where it was reached
    log_probability: float  # of all its tokens together, nats
    score: float  # log_probability / length_penalty


def check_beam_size(beam_size: int) -> None:
    """Raise ValueError for a beam of no candidates, or of more than memory is likely to hold."""
    check_positive(beam_size=beam_size)
    if beam_size > LARGEST_BEAM:
        needs = "the memory of a search grows with its square; the paper's is 4"
        raise ValueError(f"beam_size = {beam_size} must be at most {LARGEST_BEAM}: {needs}")


def beam_search(
    model: Transformer,
    source: SourceIds,
    beam_size: int = 4,
    alpha: Alpha = PAPERS_ALPHA,
    max_length: int | None = None,
) -> Int[Tensor, "batch generated"]:
    """The best hypothesis of `beam_hypotheses` for each sentence.

    Source: section 6.1 [decode].

    Args:
        source: ids padded with pad_id.
        beam_size: candidates that each sentence keeps; 1 with alpha = 0 is greedy decoding.
        alpha: of the length penalty, at least 0; "length" divides by the number of
            tokens instead.
        max_length: most tokens to generate; None: 50 more than each sentence's own length.

    Returns:
        generated ids without `<bos>`, with `<eos>` where it was reached, padding after it.

    Raises:
        ValueError: a value out of range, a source that the model refuses, or logits that are not finite.
    """
    ranked = beam_hypotheses(model, source, beam_size, alpha, max_length)
    return pad_rows([best[0].tokens for best in ranked], model.config.pad_id).to(source.device)


def beam_hypotheses(
    model: Transformer,
    source: SourceIds,
    beam_size: int = 4,
    alpha: Alpha = PAPERS_ALPHA,
    max_length: int | None = None,
) -> list[list[Hypothesis]]:
    """The finished candidates of each sentence, at most beam_size, best first.

    Each step extends every candidate by every token and keeps the beam_size
    likeliest. One that ends leaves the beam. A sentence is done when beam_size
    candidates have ended and none of those still open scores better as it
    stands; or at its limit, where those still open count as they are. Arguments
    and errors are those of beam_search.
    """
    check_beam_size(beam_size)
    check_alpha(alpha)
    finished: list[list[Hypothesis]] = [[] for _ in source]
    with decoding_mode(model):
        limits = length_limits(model, source, max_length)
        cache = start_decoding(model, source, int(limits.max()))
        beam = _Beam(model.config, limits, beam_size, next(model.parameters()).dtype)
        while len(beam.rows) > 0:
            newest = beam.tokens[:, :, -1]  # (open sentences, beam)
            logits = cache.next_logits(newest, beam.mask())
            for row, tokens, log_probability in beam.extend(logits):
                score = log_probability / length_penalty(len(tokens), alpha)
                hypothesis = Hypothesis(tokens, log_probability, score)
                insort(finished[row], hypothesis, key=lambda h: -h.score)
            last_kept = [finished[row][beam_size - 1 : beam_size] for row in beam.rows.tolist()]
            worst_kept = [last[0].score if last else -math.inf for last in last_kept]
            still_open = beam.still_open(worst_kept, alpha)
            if not still_open.all():  # A finished sentence leaves the batch.
                beam.keep(still_open)
                cache.keep(still_open)
    return [ranked[:beam_size] for ranked in finished]


@torch.no_grad()
def hypothesis_attention(
    model: Transformer, source: SourceIds, tokens: Sequence[int] | Int[Tensor, " generated"]
) -> dict[str, Float[Tensor, "1 heads queries keys"]]:
    """The weights with which every layer and head looked while these tokens were generated, under the keys
    of record_attention. Row i of a decoder's array belongs to the step that chose tokens[i].

    Args:
        source: the one sentence that was translated, (1, source).
        tokens: of a hypothesis, or a row of greedy_decode without its padding.

    Raises:
        ValueError: no tokens, more than one sentence, or ids that the model refuses.
    """
    if len(source) != 1:
        raise ValueError(f"source has {len(source)} sentences; give the one that was translated")
    if len(tokens) == 0:
        raise ValueError("there are no tokens; give those of a hypothesis, at least one")
    target_input = torch.tensor([[model.config.bos_id, *map(int, tokens[:-1])]], device=source.device)
    with evaluation_mode(model), record_attention(model) as weights:
        model(source, target_input)
    return dict(weights)


class _Beam:
    # The open candidates of the open sentences. The first axis of every array is the sentence, the second its beams.

    def __init__(self, config: TransformerConfig, limits: Tensor, beam_size: int, dtype: torch.dtype):
        sentences, device = len(limits), limits.device
        self.config, self.limits = config, limits
        self.rows = torch.arange(sentences, device=device)  # places of the sentences in the batch as it came
        self.tokens = limits.new_full((sentences, beam_size, 1), config.bos_id)  # (…, so far)
        # At first all candidates of a sentence are the same: one counts.
        precise = torch.promote_types(dtype, torch.float32)
        self.totals = torch.full((sentences, beam_size), -math.inf, dtype=precise, device=device)
        self.totals[:, 0] = 0.0
        self.itself = torch.eye(beam_size, dtype=torch.bool, device=device)
        self.descends = torch.zeros(sentences, beam_size, 0, dtype=torch.bool, device=device)  # (…, cells)

    def mask(self) -> Tensor:
        # Cells of the cache never move. This says which of them belong to a candidate: its ancestors' and its own.
        self.descends = torch.cat([self.descends, self.itself.expand(len(self.rows), -1, -1)], dim=-1)
        return self.descends[:, None]

    def extend(self, logits: Tensor) -> list[tuple[int, list[int], float]]:
        # Every candidate by every token. Returns those that end, each as
        # (sentence, tokens, log-probability).
        eos_id, beam_size = self.config.eos_id, self.totals.size(1)
        log_p = logits.log_softmax(dim=-1, dtype=self.totals.dtype)
        log_p[:, :, self.config.pad_id] = -math.inf  # not a word
        # (sentences, beam · vocabulary)
        extended = (self.totals[:, :, None] + log_p).flatten(1)
        # Of 2 · beam_size extensions at most beam_size end: enough are left.
        best, indices = extended.topk(2 * beam_size)
        check_finite(best[:, 0])
        parents, newest = indices // log_p.size(-1), indices % log_p.size(-1)
        ends = newest == eos_id
        ended = []
        for i, j in (ends & best.isfinite())[:, :beam_size].nonzero().tolist():
            tokens = [*self.tokens[i, parents[i, j], 1:].tolist(), eos_id]
            ended.append((int(self.rows[i]), tokens, float(best[i, j])))
        self.totals, chosen = best.masked_fill(ends, -math.inf).topk(beam_size)
        parents, newest = parents.gather(1, chosen), newest.gather(1, chosen)
        before = parents[:, :, None]  # whose past each one takes over
        kept = self.tokens.gather(1, before.expand_as(self.tokens))
        self.tokens = torch.cat([kept, newest[:, :, None]], dim=-1)
        self.descends = self.descends.gather(1, before.expand_as(self.descends))
        at_limit = self._at_limit()[:, None] & self.totals.isfinite()
        for i, j in at_limit.nonzero().tolist():
            tokens = self.tokens[i, j, 1:].tolist()
            ended.append((int(self.rows[i]), tokens, float(self.totals[i, j])))
        return ended

    def still_open(self, worst_kept: Sequence[float], alpha: Alpha) -> Tensor:
        best_open = self.totals.amax(dim=1) / length_penalty(self.tokens.size(-1) - 1, alpha)
        hopeless = best_open <= torch.tensor(worst_kept, dtype=torch.float64).to(best_open)
        return ~(hopeless | self._at_limit())

    def _at_limit(self) -> Tensor:
        return self.tokens.size(-1) > self.limits

    def keep(self, sentences: Tensor) -> None:
        self.rows, self.limits = self.rows[sentences], self.limits[sentences]
        self.tokens, self.totals = self.tokens[sentences], self.totals[sentences]
        self.descends = self.descends[sentences]
