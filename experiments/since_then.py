"""What changed since 2017, one diff at a time: each variant trained on the same number words, with the same seeds.

    python experiments/since_then.py

The diffs of workshop/lab/since_then/ are applied to copies of the package. A model of each copy learns English to
German number words from the same batches. The record has the loss and the exact matches on unseen numbers, the
processor time of training for one sentence, the parameters, and the bytes of the decoder's cache.
"""

import argparse
import math
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import torch

from experiments.seeded_defects import MODEL
from transformer_lib.config import TrainingConfig
from transformer_lib.data import WordTokenizer
from transformer_lib.data.batches import make_batch, token_batches
from transformer_lib.data.number_words import english_number, german_number
from workshop.lab.decoder_only import DecoderOnly
from workshop.lab.patches import patched_package
from workshop.lab.provenance import provenance, write_result

LIMIT, TRAINED_ON = 1000, 700  # the numbers: below, and how many to learn from; the others are scored
TRAINING: dict[str, Any] = {"num_steps": 80, "batch_tokens": 500, "warmup_steps": 200}
LINE_TOKENS = 1000  # the limit for decoder-only, whose texts hold both sentences
CACHED = 100  # tokens, of the source and of the target, for which the cache is measured

Ids = list[int]


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


class Task(NamedTuple):
    """Numbers in words: as pairs of sentences, and as texts for a decoder alone."""

    tokenizer: WordTokenizer
    learned: list[tuple[str, str]]
    scored: list[tuple[str, str]]

    def pairs(self, some: list[tuple[str, str]]) -> list[tuple[Ids, Ids]]:
        """Sentences to read, and sentences to predict."""
        return [(self.tokenizer.encode(english), self.tokenizer.encode(german)) for english, german in some]

    def texts(self, some: list[tuple[str, str]]) -> list[tuple[Ids, Ids]]:
        """Nothing to read, and "forty seven = sieben und vierzig" to predict."""
        return [([], self.tokenizer.encode(f"{english} = {german}")) for english, german in some]


def number_task(limit: int = LIMIT, trained_on: int = TRAINED_ON) -> Task:
    """The numbers below the limit, shuffled and divided."""
    numbers = random.Random(0).sample(range(limit), limit)
    pairs = [(english_number(n), german_number(n)) for n in numbers]
    tokenizer = WordTokenizer.train([*(side for pair in pairs for side in pair), "="])
    return Task(tokenizer, pairs[:trained_on], pairs[trained_on:])


def one_run(variant: Variant, seed: int, task: Task, training: Mapping[str, Any]) -> dict[str, float]:
    """Train the variant and score it."""
    with patched_package(*variant.diffs) as library:
        torch.manual_seed(seed)
        config = library.TransformerConfig(vocabulary_size=len(task.tokenizer), **{**MODEL, **variant.model})
        model = library.Transformer(config)
        data, settings = task.pairs(task.learned), TrainingConfig(**training, seed=seed)
        if variant.decoder_only:
            model, data = DecoderOnly(model), task.texts(task.learned)
            settings = TrainingConfig(**{**training, "batch_tokens": LINE_TOKENS}, seed=seed)
        seconds = train(library, model, data, settings)
        score = text_scores if variant.decoder_only else pair_scores
        return {
            "parameters": library.count_parameters(model),
            "milliseconds_per_sentence": round(1000 * seconds, 4),
            **score(library, model, task),
            **({} if variant.decoder_only else cache_bytes(library, model)),
        }


def train(library: ModuleType, model: Any, data: list[tuple[Ids, Ids]], settings: TrainingConfig) -> float:
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


def pair_scores(library: ModuleType, model: Any, task: Task) -> dict[str, float]:
    """Nats for each German token, and the share of numbers translated to the letter, greedily."""
    batches = token_batches(task.pairs(task.scored), TRAINING["batch_tokens"])
    nats = math.log(import_module(f"{library.__name__}.evaluation").perplexity(model, batches))
    sentences = [english for english, _ in task.scored]
    translate = import_module(f"{library.__name__}.run.translation").translate
    found = translate(model, sentences, task.tokenizer, task.tokenizer, batch_size=len(sentences))
    right = sum(said == german for said, (_, german) in zip(found, task.scored, strict=True))
    return {"nats_per_token": round(nats, 5), "exact_match": right / len(sentences)}


@torch.no_grad()
def text_scores(_library: ModuleType, model: Any, task: Task) -> dict[str, float]:
    """The same of a decoder alone: its loss after "=", and what it writes after "forty seven ="."""
    model.eval()
    [equals] = task.tokenizer.encode("=")
    batch = make_batch(task.texts(task.scored))
    log_p = model(None, batch.target_input).log_softmax(dim=-1)
    nats = -log_p.gather(-1, batch.target_output.unsqueeze(-1))[..., 0]
    answer = (batch.target_input == equals).cumsum(dim=1).bool() & (batch.target_output != model.config.pad_id)
    found = translated(model, task.tokenizer, [english for english, _ in task.scored])
    right = sum(a == german for a, (_, german) in zip(found, task.scored, strict=True))
    return {"nats_per_token": round(nats[answer].mean().item(), 5), "exact_match": right / len(task.scored)}


def translated(model: DecoderOnly, tokenizer: WordTokenizer, sentences: Sequence[str]) -> list[str]:
    """What the model writes after each sentence and "="."""
    prompts = [[model.config.bos_id, *tokenizer.encode(f"{english} =")] for english in sentences]
    found: dict[int, str] = {}
    for length in set(map(len, prompts)):
        places = [i for i, prompt in enumerate(prompts) if len(prompt) == length]
        texts = model.write_on(torch.tensor([prompts[i] for i in places]), limit=12)
        found |= {i: tokenizer.decode(text[length:].tolist()) for i, text in zip(places, texts, strict=True)}
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
    student = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}[len(values)]
    width = student * statistics.stdev(differences) / math.sqrt(len(values))
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


def main() -> None:
    """Run every variant with each seed; write the record anew after each seed from the second on."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="runs of each variant, 2 to 8 (default: 5)")
    steps = TRAINING["num_steps"]
    parser.add_argument("--steps", type=int, default=steps, help=f"updates of each run (default: {steps})")
    args = parser.parse_args()
    started = time.monotonic()
    torch.set_num_threads(1)
    task, training = number_task(), TRAINING | {"num_steps": args.steps}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
    for seed in range(args.seeds):
        for name, variant in VARIANTS.items():
            runs[name].append(one_run(variant, seed, task, training))
            print(f"{time.monotonic() - started:6.0f} s  seed {seed}  {name:13} {runs[name][-1]}", flush=True)
        if seed:
            record = {
                "what": "models with one change since 2017 each, and with all, trained on the same number words",
                "data": f"English to German number words below {LIMIT:,}: {TRAINED_ON} to learn, the others to score",
                "model": MODEL | {"p_drop": 0.1},
                "training": training | {"batch_tokens_decoder_only": LINE_TOKENS},
                "variants": {name: {"diffs": v.diffs, "model": dict(v.model)} for name, v in VARIANTS.items()},
                "seeds": seed + 1,
                "cached_tokens": CACHED,
                "runs": runs,
                "against_2017": against_2017(runs),
                **provenance(0, time.monotonic() - started),
            }
            print(f"written to {write_result('since_then', record).name}")


if __name__ == "__main__":
    main()
