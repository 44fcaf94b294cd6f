"""What each head of a trained translator looks at, and what the translation loses without it.

    TRANSFORMER_LIB_DATA=... python experiments/head_ablation.py --translator tatoeba_de_en

On the held-out sentences of Tatoeba, or with --sentences on so many of them, evenly spaced. Each head is removed alone,
then all heads of one attention, then all of a kind; every time the sentences are translated greedily and scored against
the whole model, with a paired bootstrap. The weights of the whole model are measured on its own translations: named
patterns, undecidedness, crossings.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transformer_lib import Transformer, record_attention
from transformer_lib.attention_maps import heads_removed
from transformer_lib.data import load_pairs
from transformer_lib.decoding import hypothesis_attention
from transformer_lib.evaluation import import_sacrebleu
from transformer_lib.reference import crossed_pairs, keys_looked_at, share_of_weight
from transformer_run.translator import Translator

RESAMPLES = 1000
# Forms that send the verb of the clause to its end: "ich habe … gelesen", "ich will … lesen".
FRAMES = set(
    "habe hast hat haben habt hatte hatten kann kannst können könnt konnte konnten will willst wollen wollt wollte "
    "wollten muss musst müssen müsst musste mussten soll sollst sollen sollte sollten darf darfst dürfen werde wirst "
    "wird werden werdet würde würdest würden".split()
)


def names(source: list[str], written: list[str]) -> dict[str, int]:
    """Where the source has a name that stands once on either side."""
    copies = {}
    for place, piece in enumerate(source):
        like_a_name = piece.lstrip("▁")[:1].isupper() and len(piece) > 3
        if like_a_name and source.count(piece) == written.count(piece) == 1:
            copies[piece] = place
    return copies


def habits_of(
    name: str,
    source: list[str],
    written: list[str],
) -> dict[str, Callable[[int], int]]:
    """The habits to test for this attention: name → key of query i."""
    habits: dict[str, Callable[[int], int]] = {"first": lambda i: 0}
    if name.endswith("self"):
        habits["previous"] = lambda i: i - 1
        habits["same"] = lambda i: i
    if name.startswith("encoder"):
        habits["next"] = lambda i: i + 1
    if name.startswith("encoder") or name.endswith("cross"):
        habits["<eos>"] = lambda i: len(source) - 1
    if name.endswith("cross"):
        read, copies = ["<bos>", *written[:-1]], names(source, written)
        habits["same place"] = lambda i: i
        habits["name to choose"] = lambda i: copies.get(written[i], -1)
        habits["name just read"] = lambda i: copies.get(read[i], -1)
    return habits


def head_habits(
    sentences: Sequence[tuple[dict[str, Tensor], list[str], list[str]]],
) -> dict[tuple[str, int], dict[str, tuple[float, float]]]:
    """(attention, head) → habit → mean share of weight and the share of even weights.

    The entry "keys" says how many keys the head looks at, and how many it could.
    """
    shares_of_head: dict[tuple[str, int], dict[str, list[tuple[float, float]]]] = {}
    for weights, source, written in sentences:
        for name, array in weights.items():
            causal = name.startswith("decoder") and name.endswith("self")
            habits = habits_of(name, source, written)
            for head, rows in enumerate(array[0].double().numpy()):
                lists = shares_of_head.setdefault((name, head), {})
                for habit, key_of_query in habits.items():
                    shares = share_of_weight(rows, key_of_query, causal)
                    if not math.isnan(shares[0]):
                        lists.setdefault(habit, []).append(shares)
                start = 1 if causal else 0  # the first query has one key
                n, m = rows.shape
                could = [i + 1 if causal else m for i in range(start, n)]
                if could:
                    keys = fmean(keys_looked_at(rows[start:])), fmean(could)
                    lists.setdefault("keys", []).append(keys)
    return {
        place: {habit: (fmean(a for a, _ in pairs), fmean(b for _, b in pairs)) for habit, pairs in lists.items()}
        for place, lists in shares_of_head.items()
    }


def views(weights: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Cross-attention (queries, keys): heads, means over heads and layers."""
    cross = [name for name in weights if name.endswith("cross")]
    # (heads, queries, keys)
    crosses = {name: weights[name][0] for name in cross}
    for name, array in crosses.items():
        for head, rows in enumerate(array):
            yield f"{name}, head {head}", rows
    for name, array in crosses.items():
        yield f"{name}, mean of heads", array.mean(dim=0)
    together = torch.stack([crosses[name] for name in cross])
    yield "mean of heads and layers", together.mean(dim=(0, 1))


def most_attended_keys(rows: Tensor) -> list[int]:
    """The key with the largest weight in each row, <eos> left out of both."""
    return rows[:-1, :-1].argmax(dim=1).tolist()


def maps(translator: Translator, sources: list[str], hypotheses: list[list[int]]) -> list[Any]:
    """(weights, source tokens, written tokens) of each translation."""
    eos_id, translated = translator.model.config.eos_id, []
    for text, written in zip(sources, hypotheses, strict=True):
        ids = [*translator.source_tokenizer.encode(text), eos_id]
        weights = hypothesis_attention(translator.model, torch.tensor([ids]), written)
        tokens = translator.source_tokenizer.tokens(ids), translator.target_tokenizer.tokens(written)
        translated.append((weights, *tokens))
    return translated


def has_frame(text: str) -> bool:
    """Whether a sentence of five words or more holds a form of FRAMES and ends like an infinitive or participle."""
    words = text.lower().rstrip(".!?").replace(",", "").split()
    return len(words) >= 5 and bool(FRAMES & set(words)) and words[-1].endswith(("n", "t"))


def crossings(translated: list[Any], texts: list[str]) -> dict[str, dict[str, Any]]:
    """View → group of sentences → how many of its pairs of lines cross: mean and standard error over sentences."""
    shares: dict[str, dict[str, list[float]]] = {}
    for (weights, _, _), text in zip(translated, texts, strict=True):
        if len(text.split()) < 5:
            continue
        group = "verb frame" if has_frame(text) else "others"
        for view, rows in views(weights):
            crossed, uncrossed = crossed_pairs(most_attended_keys(rows))
            if crossed + uncrossed:
                share = crossed / (crossed + uncrossed)
                shares.setdefault(view, {}).setdefault(group, []).append(share)
    return {
        view: {
            group: {
                "sentences": len(values),
                "mean": round(fmean(values), 4),
                "standard_error": round(stdev(values) / math.sqrt(len(values)), 4) if len(values) > 1 else None,
            }
            for group, values in groups.items()
        }
        for view, groups in shares.items()
    }


class Scorer:
    """BLEU of the same references for many sets of hypotheses, and whether one set is worse by more than chance."""

    def __init__(self, references: list[str], seed: int):
        self.references = references
        self.metric = import_sacrebleu().BLEU()
        self.per_sentence = import_sacrebleu().BLEU(effective_order=True)  # for its counts; no warning
        draws = np.random.default_rng(seed).integers(len(references), size=(RESAMPLES, len(references)))
        self.times = np.stack([np.bincount(draw, minlength=len(references)) for draw in draws])

    def counts(self, hypotheses: list[str]) -> np.ndarray:
        """(sentences, 10): matches and totals of 1- to 4-grams, the two lengths."""
        scores = [
            self.per_sentence.sentence_score(hypothesis, [reference])
            for hypothesis, reference in zip(hypotheses, self.references, strict=True)
        ]
        return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])

    def bleu(self, counts: np.ndarray) -> float:
        """The corpus score of summed counts."""
        c = [int(x) for x in counts]
        return self.metric.compute_bleu(c[:4], c[4:8], c[8], c[9], smooth_method="exp").score

    def signature(self) -> str:
        """How sacreBLEU computed the scores."""
        self.metric.corpus_score(self.references[:1], [self.references[:1]])
        return str(self.metric.get_signature())

    def cost(self, whole: np.ndarray, without: np.ndarray) -> dict[str, float]:
        """BLEU without, what was lost, and the middle 95 of 100 resampled losses."""
        pairs = zip(self.times @ whole, self.times @ without, strict=True)
        lost = np.array([self.bleu(a) - self.bleu(b) for a, b in pairs])
        score = self.bleu(without.sum(axis=0))
        low, high = np.quantile(lost, [0.025, 0.975])
        names = ("bleu", "bleu_lost", "bleu_lost_low", "bleu_lost_high")
        values = (score, self.bleu(whole.sum(axis=0)) - score, low, high)
        return {name: round(float(value), 2) for name, value in zip(names, values, strict=True)}


def groups(model: Transformer) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """What is removed together: each head, each attention, each kind."""
    with record_attention(model) as weights, torch.no_grad():
        model.eval()(torch.tensor([[3, 2]]), torch.tensor([[1]]))
    heads = [(name, head) for name, array in weights.items() for head in range(array.size(1))]
    yield from ((f"{name}, head {head}", [(name, head)]) for name, head in heads)
    yield from ((f"{name}, all heads", [h for h in heads if h[0] == name]) for name in weights)
    for stack, role in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross")):
        chosen = [h for h in heads if h[0].startswith(stack) and h[0].endswith(role)]
        yield f"{stack} {role}, all layers", chosen


def measured(translator: str, sentences: int, seed: int) -> dict[str, Any]:
    """The record: translate, remove heads, translate again.

    Args:
        translator: its name or folder.
        sentences: of the test split, evenly spaced; 0: all.
        seed: of the bootstrap.
    """
    from workshop.lab.experiment import each  # here, as a page imports the functions above without the workshop

    whole_model = Translator.load(translator)
    pairs = load_pairs("tatoeba", "test", whole_model.source, whole_model.target)
    if sentences:
        pairs = pairs[:: max(1, len(pairs) // sentences)][:sentences]
    sources = [source for source, _ in pairs]
    scorer = Scorer([target for _, target in pairs], seed)
    hypotheses = whole_model.translate(sources)
    whole = scorer.counts(hypotheses)

    def without(name: str, heads: list[tuple[str, int]]) -> dict[str, Any]:
        with heads_removed(whole_model.model, heads):
            scores = scorer.cost(whole, scorer.counts(whole_model.translate(sources)))
        return {"removed": name, "heads": heads, **scores}

    removed = each(without, groups(whole_model.model))
    eos_id = whole_model.model.config.eos_id
    written = [[*whole_model.target_tokenizer.encode(text), eos_id] for text in hypotheses]
    translated = maps(whole_model, sources, written)
    habits = [
        {"attention": name, "head": head} | {habit: [round(x, 4) for x in shares] for habit, shares in of_head.items()}
        for (name, head), of_head in head_habits(translated).items()
    ]
    return {
        "what": "heads of a trained translator: what they look at, and what is lost without them",
        "data": f"Tatoeba, {whole_model.source} to {whole_model.target}, test: {len(pairs):,} pairs",
        "translator": translator,
        "sentences": len(pairs),
        "decoding": "greedy",
        "bleu": round(scorer.bleu(whole.sum(axis=0)), 2),
        "bleu_signature": scorer.signature(),
        "resamples": RESAMPLES,
        "removed": removed,
        "habits": habits,
        "crossings": crossings(translated, sources),
    }


if __name__ == "__main__":
    from workshop.lab.experiment import record

    record("head_ablation", __doc__, measured, translator="tatoeba_de_en", sentences=0, seed=0)
