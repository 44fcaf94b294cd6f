"""What a wider beam and a length penalty bring to a small translator that is half trained, and one search in full.

    python experiments/beam_search.py

Five seeds learn English to German number words and are stopped early, when they are wrong about as often as right.
Each translates the same unseen numbers with several beams. For one number that greedy decoding gets wrong, the model's
log-probabilities after every beginning that a beam of up to six meets are written down, so that the search can be
repeated, with other beams, from the file.
"""

from statistics import fmean
from typing import Any

import torch

from transformer_lib import Transformer
from transformer_lib.data import english_number, german_number, token_batches
from transformer_lib.decoding import Hypothesis
from transformer_lib.evaluation import exact_match, perplexity
from transformer_lib.transformer import evaluation_mode
from transformer_run.translation import hypotheses as hypotheses_of
from workshop.lab.experiment import each, record
from workshop.lab.small_model import SIZES, number_words, train_number_words

LEARNED, SCORED = 8000, 300
BEAMS, ALPHAS = [1, 2, 4, 8, 16], [0.0, 0.6, 1.0]
MODEL = SIZES | {"p_drop": 0.0}
TRAINING: dict[str, Any] = {"num_steps": 150, "batch_tokens": 500, "accumulate": 2, "warmup_steps": 600}
WIDEST, WORDS = 6, 10  # the widest beam that can be repeated from the file, and the words kept after each beginning
NUMBERS = number_words(LEARNED, SCORED)
SENTENCES, TOKENIZER = NUMBERS.scored, NUMBERS.tokenizer


def trained(seed: int) -> Transformer:
    """The small model after its few updates."""
    model, _, records = train_number_words(NUMBERS, MODEL, TRAINING, seed)
    for _ in records:
        pass
    return model


def search(model: Transformer, sentences: list[str], beam_size: int, alpha: float) -> list[Hypothesis]:
    """The best hypothesis of each sentence."""
    ranked = hypotheses_of(model, sentences, TOKENIZER, beam_size, alpha, batch_size=100)
    return [hypotheses[0] for hypotheses in ranked]


def scores(model: Transformer, beam_size: int, alpha: float, greedy: list[Hypothesis]) -> dict[str, float]:
    """How good the sentences of one beam are, and how probable."""
    english, german = map(list, zip(*SENTENCES, strict=True))
    hypotheses = search(model, english, beam_size, alpha)
    lengths = [len(TOKENIZER.encode(text)) + 1 for text in german]
    return {
        "beam_size": beam_size,
        "alpha": alpha,
        "exact_match": round(exact_match([TOKENIZER.decode(h.tokens) for h in hypotheses], german), 4),
        "log_probability_nats": round(fmean(h.log_probability for h in hypotheses), 4),
        "length_ratio": round(sum(len(h.tokens) for h in hypotheses) / sum(lengths), 4),
        "likelier_than_greedy": sum(
            h.log_probability > g.log_probability + 1e-4 for h, g in zip(hypotheses, greedy, strict=True)
        ),
    }


def telling_number(model: Transformer) -> int:
    """The shortest unseen number ending in 47 that greedy decoding gets wrong and a beam of four gets right."""
    learned = {source for source, _ in NUMBERS.learned}
    numbers = [n for n in range(47, 100_000, 100) if english_number(n) not in learned]
    english, german = [english_number(n) for n in numbers], [german_number(n) for n in numbers]
    one, four = search(model, english, 1, 0.0), search(model, english, 4, 0.6)
    telling = [
        (len(TOKENIZER.encode(right)), n)
        for n, right, g, b in zip(numbers, german, one, four, strict=True)
        if TOKENIZER.decode(g.tokens) != right == TOKENIZER.decode(b.tokens)
    ]
    print(f"{len(telling)} of {len(numbers)} numbers ending in 47 are right with a beam of four and wrong without")
    return min(telling)[1]


def next_words(model: Transformer, english: str, limit: int) -> dict[str, dict[str, float]]:
    """Beginning → the likeliest next words with their log-probabilities, for all beginnings that a beam meets."""
    config = model.config
    source = torch.tensor([[*TOKENIZER.encode(english), config.eos_id]])
    table: dict[str, dict[str, float]] = {}

    def after(words: tuple[str, ...]) -> dict[str, float]:
        if (key := " ".join(words)) not in table:
            ids = [config.bos_id, *TOKENIZER.encode(key)]
            log_probabilities = model.decode(torch.tensor([ids]), memory, source)[0, -1].log_softmax(-1)
            log_probabilities[config.pad_id] = -torch.inf
            best = log_probabilities.topk(WORDS)
            names = TOKENIZER.tokens(best.indices.tolist())
            table[key] = {w: round(p, 6) for w, p in zip(names, best.values.tolist(), strict=True)}
        return table[key]

    with torch.no_grad(), evaluation_mode(model):
        memory = model.encode(source)
        for width in range(1, WIDEST + 1):
            beam: list[tuple[float, tuple[str, ...]]] = [(0.0, ())]
            for _ in range(limit):
                longer = [(total + p, (*words, w)) for total, words in beam for w, p in after(words).items()]
                beam = sorted((e for e in longer if e[1][-1] != "<eos>"), reverse=True)[:width]
    return table


def one_run(seed: int) -> dict[str, Any]:
    """Train, then score every beam with every length penalty."""
    model = trained(seed)
    greedy = search(model, [source for source, _ in SENTENCES], 1, 0.0)
    run = {
        "seed": seed,
        "perplexity": round(perplexity(model, token_batches(NUMBERS.ids(SENTENCES), 4000)), 4),
        "scores": [scores(model, beam_size, alpha, greedy) for alpha in ALPHAS for beam_size in BEAMS],
    }
    return run | ({"translations": [TOKENIZER.decode(h.tokens) for h in greedy]} if seed == 0 else {})


def measured(seeds: int) -> dict[str, Any]:
    """The record of so many seeds, and of one search."""
    model = trained(0)
    number = telling_number(model)
    english, german = english_number(number), german_number(number)
    after = next_words(model, english, len(german.split()) + 4)
    return {
        "what": "half-trained translators of number words decoded with several beams; one search in full",
        "data": f"number words, English to German: {LEARNED:,} pairs of train to learn, {SCORED} of val to score",
        "model": MODEL,
        "training": TRAINING,
        "sentences": SCORED,
        "runs": each(one_run, [(seed,) for seed in range(seeds)]),
        "tree": {"seed": 0, "english": english, "german": german, "words": WORDS, "next": after},
    }


if __name__ == "__main__":
    record("beam_search", __doc__, measured, seeds=5)
