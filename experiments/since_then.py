"""What changed since 2017, one diff at a time: each variant trained on the same number words, with the same seeds.

    python experiments/since_then.py

The diffs of workshop/lab/since_then/ are applied to copies of the package. A model of each copy learns English to
German number words from the same batches. The record has the loss and the exact matches on unseen numbers, the
processor time of training for one sentence, the parameters, and the bytes of the decoder's cache.
"""

import math
import random
import statistics
import time
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import torch

from transformer_lib.config import TrainingConfig
from transformer_lib.data import WordTokenizer, english_number, german_number, make_batch, token_batches
from workshop.lab.decoder_only import DecoderOnly
from workshop.lab.experiment import each, record
from workshop.lab.patches import patched_package
from workshop.lab.small_model import SIZES, Ids, NumberWords, Pairs

LIMIT, TRAINED_ON = 1000, 700  # the numbers: below, and how many to learn from; the others are scored
TRAINING: dict[str, Any] = {"num_steps": 80, "batch_tokens": 500, "warmup_steps": 200}
LINE_TOKENS = 1000  # the limit for decoder-only, whose texts hold both sentences
# The 97.5 % point of Student's distribution, by the number of values.
STUDENT_975 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
CACHED = 100  # tokens, of the source and of the target, for which the cache is measured


class Variant(NamedTuple):
    """The diffs to apply, and the fields of the configuration that differ."""

    diffs: tuple[str, ...] = ()
    model: Mapping[str, Any] = MappingProxyType({})
    decoder_only: bool = False


TODAY = ("rms_norm", "rotary", "gated", "grouped")
VARIANTS = {
    "2017": Variant(),
    "pre-norm": Variant(model={"norm_order": "pre"}),
    "RMSNorm": Variant(("rms_norm",)),
    "rotary": Variant(("rotary",)),
    "gated": Variant(("gated",)),
    "grouped": Variant(("grouped",)),
    # As many blocks of weights as two layers of each stack.
    "decoder-only": Variant(model={"num_layers": 4}, decoder_only=True),
    "all of today": Variant(TODAY, {"num_layers": 4, "norm_order": "pre"}, decoder_only=True),
}


def number_words() -> NumberWords:
    """The numbers below the limit, shuffled and divided, with a tokenizer that knows "=", too."""
    numbers = random.Random(0).sample(range(LIMIT), LIMIT)
    pairs = [(english_number(n), german_number(n)) for n in numbers]
    tokenizer = WordTokenizer.train([*(side for pair in pairs for side in pair), "="])
    return NumberWords(pairs[:TRAINED_ON], pairs[TRAINED_ON:], tokenizer)


def texts(words: NumberWords, some: Pairs) -> Ids:
    """For a decoder alone: nothing to read, and "forty seven = sieben und vierzig" to predict."""
    return [([], words.tokenizer.encode(f"{english} = {german}")) for english, german in some]


def one_run(variant: Variant, seed: int, words: NumberWords, training: Mapping[str, Any]) -> dict[str, float]:
    """Train the variant and score it."""
    with patched_package(*variant.diffs) as library:
        torch.manual_seed(seed)
        config = library.TransformerConfig(vocabulary_size=len(words.tokenizer), **{**SIZES, **variant.model})
        model = library.Transformer(config)
        data, settings = words.ids(words.learned), TrainingConfig(**training, seed=seed)
        if variant.decoder_only:
            model, data = DecoderOnly(model), texts(words, words.learned)
            settings = TrainingConfig(**{**training, "batch_tokens": LINE_TOKENS}, seed=seed)
        seconds = train(library, model, data, settings)
        score = text_scores if variant.decoder_only else pair_scores
        return {
            "parameters": library.count_parameters(model),
            "milliseconds_per_sentence": round(1000 * seconds, 4),
            **score(library, model, words),
            **({} if variant.decoder_only else cache_bytes(library, model)),
        }


def train(library: ModuleType, model: Any, data: Ids, settings: TrainingConfig) -> float:
    """Train; the median processor time of this thread for one sentence, in seconds."""
    training = import_module(f"{library.__name__}.training")
    tokens = statistics.fmean(len(target) + 1 for _, target in data)
    seconds, started = [], time.thread_time()
    optimizer = training.adam(model, settings)
    for step in training.train(model, optimizer, training.epochs(data, model.config, settings), settings):
        now = time.thread_time()
        seconds.append((now - started) * tokens / step.target_tokens)
        started = now
    return statistics.median(seconds)


def pair_scores(library: ModuleType, model: Any, words: NumberWords) -> dict[str, float]:
    """Nats for each German token, and the share of numbers translated to the letter, greedily."""
    batches = token_batches(words.ids(words.scored), TRAINING["batch_tokens"])
    nats = math.log(import_module(f"{library.__name__}.evaluation").perplexity(model, batches))
    rows = library.greedy_decode(model, make_batch(words.ids(words.scored)).source).tolist()
    right = sum(words.tokenizer.decode(row) == german for row, (_, german) in zip(rows, words.scored, strict=True))
    return {"nats_per_token": round(nats, 5), "exact_match": right / len(rows)}


@torch.no_grad()
def text_scores(_library: ModuleType, model: Any, words: NumberWords) -> dict[str, float]:
    """The same of a decoder alone: its loss after "=", and what it writes after "forty seven ="."""
    model.eval()
    [equals] = words.tokenizer.encode("=")
    batch = make_batch(texts(words, words.scored))
    log_p = model(None, batch.target_input).log_softmax(dim=-1)
    nats = -log_p.gather(-1, batch.target_output.unsqueeze(-1))[..., 0]
    answer = (batch.target_input == equals).cumsum(dim=1).bool() & (batch.target_output != model.config.pad_id)
    found = translated(model, words)
    right = sum(a == german for a, (_, german) in zip(found, words.scored, strict=True))
    return {"nats_per_token": round(nats[answer].mean().item(), 5), "exact_match": right / len(words.scored)}


def translated(model: DecoderOnly, words: NumberWords) -> list[str]:
    """What the model writes after each English sentence and "="."""
    prompts = [[model.config.bos_id, *words.tokenizer.encode(f"{english} =")] for english, _ in words.scored]
    found: dict[int, str] = {}
    for length in set(map(len, prompts)):
        places = [i for i, prompt in enumerate(prompts) if len(prompt) == length]
        texts = model.write_on(torch.tensor([prompts[i] for i in places]), limit=12)
        found |= {i: words.tokenizer.decode(text[length:].tolist()) for i, text in zip(places, texts, strict=True)}
    return [found[i] for i in range(len(prompts))]


@torch.no_grad()
def cache_bytes(library: ModuleType, model: Any) -> dict[str, int]:
    """Bytes of the keys and values that decoding keeps for one sentence, of its target and of its source."""
    cache = import_module(f"{library.__name__}.cache").start_decoding(model, torch.full((1, CACHED), 5), limit=1)
    cache.next_logits(torch.full((1, 1), 5))
    of_a_step = sum(kept[:, :, :1].nbytes for layer in cache.layers for kept in (layer.key, layer.value))
    source = sum(kept.nbytes for layer in cache.layers for kept in layer.memory)
    return {"cache_bytes_target": CACHED * of_a_step, "cache_bytes_source": source}


def interval(values: list[float], base: list[float]) -> dict[str, float]:
    """The mean of the paired differences, and half the width of its interval of 95 %."""
    differences = [value - other for value, other in zip(values, base, strict=True)]
    width = STUDENT_975[len(values)] * statistics.stdev(differences) / math.sqrt(len(values))
    return {"mean": round(statistics.fmean(differences), 5), "half_width": round(width, 5)}


def against_2017(
    runs: Mapping[str, list[dict[str, float]]],
) -> dict[str, dict[str, Any]]:
    """Each variant against 2017, seed by seed.

    Differences in nats, and ratios of time, with their intervals.
    """

    def nats(some: list[dict[str, float]]) -> list[float]:
        return [run["nats_per_token"] for run in some]

    def logs(some: list[dict[str, float]]) -> list[float]:
        return [math.log(run["milliseconds_per_sentence"]) for run in some]

    found, base = {}, runs["2017"]
    for name, own in runs.items():
        ratio = interval(logs(own), logs(base))
        mean, half = ratio["mean"], ratio["half_width"]
        ends = {"mean": mean, "low": mean - half, "high": mean + half}
        times = {end: round(math.exp(x), 3) for end, x in ends.items()}
        change = interval(nats(own), nats(base))
        found[name] = {"nats_per_token": change, "time_ratio": times}
    del found["2017"]
    return found


def measured(seeds: int, steps: int) -> dict[str, Any]:
    """The record of every variant, with so many seeds each, 2 to 10, and so many updates of each run."""
    words, training = number_words(), TRAINING | {"num_steps": steps}
    found = each(one_run, [(v, seed, words, training) for seed in range(seeds) for v in VARIANTS.values()])
    runs = {name: found[i :: len(VARIANTS)] for i, name in enumerate(VARIANTS)}
    return {
        "what": "models with one change since 2017 each, and with all, trained on the same number words",
        "data": f"English to German number words below {LIMIT:,}: {TRAINED_ON} to learn, the others to score",
        "model": SIZES | {"p_drop": 0.1},
        "training": training | {"batch_tokens_decoder_only": LINE_TOKENS},
        "variants": {name: {"diffs": v.diffs, "model": dict(v.model)} for name, v in VARIANTS.items()},
        "seeds": seeds,
        "cached_tokens": CACHED,
        "runs": runs,
        "against_2017": against_2017(runs),
    }


if __name__ == "__main__":
    record("since_then", __doc__, measured, seeds=5, steps=TRAINING["num_steps"])
