"""What a wider beam and a length penalty bring to a small translator that is half trained, and one search in full.

    python experiments/beam_search.py

Five seeds learn English to German number words and are stopped early, when they are wrong about as often as right.
Each translates the same unseen numbers with several beams. For one number that greedy decoding gets wrong, the model's
log-probabilities after every beginning that a beam of up to six meets are written down, so that the search can be
repeated, with other beams, from the file.
"""

import argparse
import time
from statistics import fmean
from typing import Any

import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig
from transformer_lib.data import WordTokenizer, english_number, german_number, load_pairs, token_batches
from transformer_lib.data.batches import pad_rows
from transformer_lib.decoding import Hypothesis, beam_hypotheses, evaluation_mode
from transformer_lib.evaluation import exact_match, perplexity
from transformer_lib.training import adam, epochs, train
from workshop.lab.provenance import provenance, write_result

SEEDS, LEARNED, SCORED = 5, 8000, 300
BEAMS, ALPHAS = [1, 2, 4, 8, 16], [0.0, 0.6, 1.0]
MODEL: dict[str, Any] = {
    "num_layers": 2, "d_model": 64, "d_ff": 256, "num_heads": 4, "d_k": 16, "d_v": 16, "p_drop": 0.0
}  # fmt: skip
TRAINING: dict[str, Any] = {"num_steps": 150, "batch_tokens": 500, "accumulate": 2, "warmup_steps": 600}
WIDEST, WORDS = 6, 10  # the widest beam that can be repeated from the file, and the words kept after each beginning
PAIRS = load_pairs("number_words", "train", "en", "de")[:LEARNED]
SENTENCES = load_pairs("number_words", "val", "en", "de")[:SCORED]
TOKENIZER = WordTokenizer.train([side for pair in PAIRS for side in pair])


def trained(seed: int) -> Transformer:
    """The small model after its few updates."""
    settings = TrainingConfig(**TRAINING, seed=seed)
    encoded = [(TOKENIZER.encode(source), TOKENIZER.encode(target)) for source, target in PAIRS]
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(vocabulary_size=len(TOKENIZER), **MODEL))
    for _ in train(model, adam(model, settings), epochs(encoded, model.config, settings), settings):
        pass
    return model


def search(model: Transformer, sentences: list[str], beam_size: int, alpha: float) -> list[Hypothesis]:
    """The best hypothesis of each sentence."""
    found: dict[int, Hypothesis] = {}
    encoded = [[*TOKENIZER.encode(sentence), model.config.eos_id] for sentence in sentences]
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
    for start in range(0, len(order), 100):
        chosen = order[start : start + 100]
        source = pad_rows([encoded[i] for i in chosen], model.config.pad_id)
        best = [hypotheses[0] for hypotheses in beam_hypotheses(model, source, beam_size, alpha)]
        found.update(zip(chosen, best, strict=True))
    return [found[i] for i in range(len(encoded))]


def scores(model: Transformer, beam_size: int, alpha: float, greedy: list[Hypothesis]) -> dict[str, float]:
    """How good the sentences of one beam are, and how probable."""
    english, german = map(list, zip(*SENTENCES, strict=True))
    found = search(model, english, beam_size, alpha)
    lengths = [len(TOKENIZER.encode(text)) + 1 for text in german]
    return {
        "beam_size": beam_size,
        "alpha": alpha,
        "exact_match": round(exact_match([TOKENIZER.decode(h.tokens) for h in found], german), 4),
        "log_probability_nats": round(fmean(h.log_probability for h in found), 4),
        "length_ratio": round(sum(len(h.tokens) for h in found) / sum(lengths), 4),
        "likelier_than_greedy": sum(
            h.log_probability > g.log_probability + 1e-4 for h, g in zip(found, greedy, strict=True)
        ),
        "less_likely_than_greedy": sum(
            h.log_probability < g.log_probability - 1e-4 for h, g in zip(found, greedy, strict=True)
        ),
    }


def telling_number(model: Transformer) -> int:
    """The shortest unseen number ending in 47 that greedy decoding gets wrong and a beam of four gets right."""
    learned = {source for source, _ in PAIRS}
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


def main() -> None:
    """Train, search, write the result."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    started = time.monotonic()
    runs, first = [], None
    for seed in range(SEEDS):
        model = trained(seed)
        first = first or model
        english = [source for source, _ in SENTENCES]
        greedy = search(model, english, 1, 0.0)
        encoded = [(TOKENIZER.encode(source), TOKENIZER.encode(target)) for source, target in SENTENCES]
        found = [scores(model, beam_size, alpha, greedy) for alpha in ALPHAS for beam_size in BEAMS]
        answers = [TOKENIZER.decode(h.tokens) for h in greedy]
        runs.append(
            {"seed": seed, "perplexity": round(perplexity(model, token_batches(encoded, 4000)), 4), "scores": found}
            | ({"translations": answers} if seed == 0 else {})
        )
        print(f"seed {seed}, {time.monotonic() - started:.0f} s: perplexity {runs[-1]['perplexity']}", flush=True)
        for line in found:
            print("   ", line, flush=True)
    assert first is not None
    number = telling_number(first)
    german = german_number(number)
    tree = {
        "seed": 0,
        "english": english_number(number),
        "german": german,
        "words": WORDS,
        "next": next_words(first, english_number(number), len(german.split()) + 4),
    }
    path = write_result(
        "beam_search",
        {
            "what": "half-trained translators of number words decoded with several beams; one search in full",
            "data": f"number words, English to German: {LEARNED:,} pairs of train to learn, {SCORED} of val to score",
            "model": MODEL,
            "training": TRAINING,
            "sentences": SCORED,
            "runs": runs,
            "tree": tree,
            **provenance(0, time.monotonic() - started),
        },
    )
    print(f"{tree['english']}: {len(tree['next'])} beginnings, written to {path.name}")


if __name__ == "__main__":
    main()
