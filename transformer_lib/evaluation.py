"""How good the model is: BLEU and chrF with their signatures, exact match, perplexity."""

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import chain
from typing import Any, NamedTuple

import torch

from .data.batches import Batch, check_special_ids
from .fast import token_losses
from .transformer import Transformer, evaluation_mode

# sacreBLEU's tokenization for scripts whose words have no spaces between them, by the first word of a letter's name.
TOKENIZATIONS = {"CJK": "zh", "HIRAGANA": "ja-mecab", "KATAKANA": "ja-mecab", "HANGUL": "ko-mecab"}
TOKENIZATIONS |= dict.fromkeys(("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"), "char")
MECAB = {"ja-mecab": "MeCab", "ko-mecab": "mecab_ko"}  # the package that it needs


class Bleu(NamedTuple):
    """A BLEU score from 0 to 100, its parts, and the signature that says how it was computed."""

    score: float
    signature: str
    precisions: tuple[float, ...]  # of n-grams of 1 to 4 words, from 0 to 100
    brevity_penalty: float  # from 0 to 1; 1 unless the hypotheses are shorter than the references
    length_ratio: float  # words of the hypotheses over words of the references


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lowercase: bool = False,
    tokenize: str = "13a",
) -> Bleu:
    """Corpus BLEU of detokenized sentences, one reference each, by sacreBLEU.

    Args:
        tokenize: sacreBLEU's own tokenization, applied to both sides; "none" if
            they are tokenized already.

    Raises:
        ValueError: different numbers of hypotheses and references, none,
            references without a word, or a tokenization that sacreBLEU does
            not have or that needs a package.
    """
    _check_lengths(hypotheses, references)
    sacrebleu = import_sacrebleu()
    try:
        metric = sacrebleu.BLEU(
            lowercase=lowercase,
            tokenize=tokenize,
            # No warning about tokenized text: the signature says tok:none.
            force=tokenize == "none",
        )
    except (KeyError, RuntimeError) as error:
        raise ValueError(f"tokenize = {tokenize!r}: {error}") from error
    result = metric.corpus_score(list(hypotheses), [list(references)])
    if not result.ref_len:
        raise ValueError("the references have no word: a score needs at least one")
    return Bleu(
        result.score,
        str(metric.get_signature()),
        tuple(result.precisions),
        result.bp,
        result.sys_len / result.ref_len,
    )


def bleu_tokenization(references: Iterable[str]) -> str:
    """sacreBLEU's tokenization for the script of the references.

    "zh" for Chinese, "ja-mecab" and "ko-mecab" for Japanese and Korean, or "char"
    where MeCab is not installed; "char" for Thai, Lao, Khmer, Burmese and Tibetan;
    else "13a".
    """
    found = Counter[str]()
    for sign, count in Counter(chain.from_iterable(references)).items():
        script = unicodedata.name(sign, "").partition(" ")[0]
        found[TOKENIZATIONS.get(script, "13a")] += count * sign.isalpha()
    if 10 * found["ja-mecab"] > found["zh"]:  # Japanese has Chinese characters, too
        found["ja-mecab"] += found.pop("zh", 0)
    [(tokenization, _)] = found.most_common(1) or [("13a", 0)]
    needed = MECAB.get(tokenization)
    return "char" if needed and find_spec(needed) is None else tokenization


class Chrf(NamedTuple):
    """A chrF score from 0 to 100, and the signature that says how it was computed."""

    score: float
    signature: str


def chrf(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Chrf:
    """F2 of the n-grams of 1 to 6 letters, over the corpus, by sacreBLEU. Raises ValueError as bleu does."""
    _check_lengths(hypotheses, references)
    metric = import_sacrebleu().CHRF(lowercase=lowercase)
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Chrf(score, str(metric.get_signature()))


def import_sacrebleu() -> Any:
    """BLEU and CHRF of sacreBLEU. Raises ImportError, which says how to install it."""
    try:
        from sacrebleu import metrics
    except ImportError as error:
        raise ImportError("BLEU needs sacrebleu: pip install sacrebleu") from error
    return metrics


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The fraction of hypotheses that equal their reference to the letter. Raises ValueError as bleu does."""
    _check_lengths(hypotheses, references)
    return sum(h == r for h, r in zip(hypotheses, references, strict=True)) / len(references)


@torch.no_grad()
def perplexity(model: Transformer, batches: Iterable[Batch]) -> float:
    """exp of the mean cross-entropy in nats per real target token.

    Without smoothing and without dropout. It is per token of the model's own
    vocabulary: models with different vocabularies cannot be compared by it.

    Raises:
        ValueError: no batches; a batch with other special ids than the model's.
    """
    device, pad_id = next(model.parameters()).device, model.config.pad_id
    nats, tokens = 0.0, 0
    with evaluation_mode(model):
        checked = (check_special_ids(batch, model.config) for batch in batches)
        for batch in (batch.to(device) for batch in checked):
            logits = model(batch.source, batch.target_input)
            losses = token_losses(logits, batch.target_output, 0.0, pad_id)
            nats += losses.sum().item()
            tokens += batch.target_tokens
    if not tokens:
        why = "perplexity is a mean over target tokens and there are none"
        raise ValueError(f"no batches: {why}")
    mean = nats / tokens
    # exp(710) is past the largest float; NaN stays NaN.
    return math.inf if mean > 700 else math.exp(mean)


def _check_lengths(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses and {len(references)} references; each needs the other")
    if not references:
        raise ValueError("no sentences: a score needs at least one")
