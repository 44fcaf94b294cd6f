"""Multi30k from raw text to signed BLEU scores, in both directions: one command, on any device.

    TRANSFORMER_LIB_DATA=... python experiments/multi30k.py                      the headline, on a GPU within minutes
    ... --config tiny --directions en-de --seeds 0 --ablation none --minutes 75  as recorded, on one CPU core
    ... --validation-only --config tiny                                          to choose between configurations
    ... --smoke                                                                  every stage, in a minute or two

A run is a direction, a seed and a label smoothing. Each is trained through the command line's own `train`, which goes
on from the last checkpoint if it was cut; a run that is done is not done again. The test set is read once, after it.
"""

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch
from cost import training_flops
from provenance import RESULTS, ROOT, provenance, write_result

from transformer_lib import cli, count_parameters
from transformer_lib.data import load_pairs
from transformer_lib.data.tokenizers import word_splitter
from transformer_lib.evaluation import bleu
from transformer_lib.translator import Translator, Weights

sys.path.insert(0, str(ROOT / "benchmarks"))
from run import gpu_peak

BEAM = 5  # as in the literature on this corpus; the paper's is 4
TEST = "test_2016_flickr"
DECODINGS: dict[str, tuple[Weights, int]] = {
    "greedy": ("latest", 1),
    "beam": ("latest", BEAM),
    "greedy, averaged": ("average", 1),
    "beam, averaged": ("average", BEAM),
}
HEADLINE = "beam, averaged"
WINDOW = 20  # steps whose loss and speed are written down together


@dataclass(frozen=True)
class Config:
    """Sizes and settings, chosen on the validation set alone."""

    model: dict[str, Any]
    training: dict[str, Any]
    vocabulary_size: int = 8000
    validate_every: int = 200
    keep_last: int = 10  # that are averaged
    patience: int = 10
    sentences: int | None = None  # of the validation and test sets; None: all


CONFIGS = {
    # For a CPU: small batches and a steep rate, so that few hours bring enough updates.
    "tiny": Config(
        {"num_layers": 2, "d_model": 256, "d_ff": 512, "num_heads": 4, "d_k": 64, "d_v": 64, "p_drop": 0.2},
        {"num_steps": 8000, "batch_tokens": 2500, "warmup_steps": 800},
        vocabulary_size=4000,
    ),
    # The text-only model that the literature found best on this corpus: narrow, with much dropout. It needs more steps
    # than a CPU makes in an hour.
    "narrow": Config(
        {"num_layers": 4, "d_model": 128, "d_ff": 256, "num_heads": 4, "d_k": 32, "d_v": 32, "p_drop": 0.3},
        {"num_steps": 10_000, "batch_tokens": 4096, "warmup_steps": 2000},
    ),
    "small": Config(
        {"num_layers": 3, "d_model": 256, "d_ff": 512, "num_heads": 4, "d_k": 64, "d_v": 64, "p_drop": 0.3},
        {"num_steps": 8000, "batch_tokens": 6000, "warmup_steps": 2000},
    ),
    "wide": Config(
        {"num_layers": 3, "d_model": 512, "d_ff": 1024, "num_heads": 8, "d_k": 64, "d_v": 64, "p_drop": 0.4},
        {"num_steps": 5000, "batch_tokens": 8000, "warmup_steps": 2000},
    ),
    "smoke": Config(
        {"num_layers": 1, "d_model": 32, "d_ff": 64, "num_heads": 2, "d_k": 16, "d_v": 16, "p_drop": 0.1},
        {"num_steps": 24, "batch_tokens": 1000, "warmup_steps": 10},
        vocabulary_size=600,
        validate_every=8,
        keep_last=2,
        sentences=12,
    ),
}


class Run(NamedTuple):
    """What sets one run apart from the others."""

    direction: str  # "en-de" or "de-en"
    seed: int
    epsilon_ls: float

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.direction}.seed{self.seed}" + ("" if self.epsilon_ls else ".unsmoothed")


@dataclass
class Task:
    """A run, and where and how it happens."""

    run: Run
    config: Config
    folder: Path
    device: str
    minutes: float
    validation_only: bool
    extra: list[str] = field(default_factory=list)  # training settings that only a GPU gets


def perform(task: Task) -> dict[str, Any]:
    """Train one run, or go on with it; then score it. What is done is read from its folder."""
    done = task.folder / ("validated.json" if task.validation_only else "scored.json")
    if done.exists():
        return json.loads(done.read_text("utf-8"))
    run, config = task.run, task.config
    source, target = run.direction.split("-")
    if not (task.folder / "trained.json").exists():
        started = time.monotonic()
        if status := cli.main(["train", *_arguments(task)]):
            raise SystemExit(status)
        trained = provenance(run.seed, time.monotonic() - started) | {"peak_memory_gb": _peak_memory(task.device)}
        (task.folder / "trained.json").write_text(json.dumps(trained))
    result = _training_summary(task)
    result["val"] = {
        name: scores(_translations(task, "val", name), _sides("val", source, target, config)[1], target)
        for name in DECODINGS
    }
    if not task.validation_only:
        references = _sides(TEST, source, target, config)[1]
        found = {name: _translations(task, TEST, name) for name in DECODINGS}
        result["test"] = {name: scores(hypotheses, references, target) for name, hypotheses in found.items()}
        result["hypotheses"] = found[HEADLINE]
    done.write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")
    return result


def scores(hypotheses: list[str], references: list[str], language: str) -> dict[str, dict[str, Any]]:
    """BLEU in three ways of counting words, each with its signature.

    cased: as sacreBLEU does it by default, on the text as it is written. The two others repeat how published scores
    of this corpus were counted: on lower-cased words of spaCy's rules, and on lower-cased text with the punctuation
    and the words of the Moses scripts, as the corpus's own preparation makes them.
    """
    words = word_splitter(language, lowercase=True)
    ways: dict[str, tuple[Callable[[str], str], str]] = {
        "cased": (str, "13a"),
        "spacy_lower": (lambda line: " ".join(words(line)), "none"),
        "moses_lower": (moses_words(language), "none"),
    }
    found = {}
    for name, (prepared, tokenize) in ways.items():
        sides = [[prepared(line) for line in side] for side in (hypotheses, references)]
        score = bleu(sides[0], sides[1], lowercase=tokenize == "none", tokenize=tokenize)
        found[name] = {"bleu": round(score.score, 2), "signature": score.signature}
    return found


def moses_words(language: str) -> Callable[[str], str]:
    """A function from a line to its words as the corpus's scripts make them: lower case, punctuation, tokenizer."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return lambda line: " ".join(tokenizer.tokenize(normalizer.normalize(line.lower())))


def _arguments(task: Task) -> list[str]:
    run, config = task.run, task.config
    source, target = run.direction.split("-")
    training = config.training | {"epsilon_ls": run.epsilon_ls, "seed": run.seed}
    return [
        *(str(task.folder), "--device", task.device, "--minutes", str(task.minutes)),
        *("--data", "multi30k", "--source", source, "--target", target),
        *("--vocabulary-size", str(config.vocabulary_size), "--validate-every", str(config.validate_every)),
        *("--keep-last", str(config.keep_last), "--patience", str(config.patience)),
        *("--model", *(f"{name}={value}" for name, value in config.model.items())),
        *("--training", *(f"{name}={value}" for name, value in training.items()), *task.extra),
        *(["--resume"] if any(task.folder.glob("checkpoints/step-*")) else []),
    ]


def _sides(split: str, source: str, target: str, config: Config) -> tuple[list[str], list[str]]:
    pairs = load_pairs("multi30k", split, source, target)[: config.sentences]
    return [text for text, _ in pairs], [text for _, text in pairs]


def _translations(task: Task, split: str, decoding: str) -> list[str]:
    checkpoint, beam_size = DECODINGS[decoding]
    source, target = task.run.direction.split("-")
    translator = Translator.load(task.folder, task.device, checkpoint)
    return translator.translate(_sides(split, source, target, task.config)[0], progress=True, beam_size=beam_size)


def _training_summary(task: Task) -> dict[str, Any]:
    """What metrics.jsonl holds, in windows of some steps; the cost of a step; where the run comes from."""
    lines = [json.loads(line) for line in (task.folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    translator = Translator.untrained(task.folder)
    windows = [lines[start : start + WINDOW] for start in range(0, len(lines), WINDOW)]
    speeds = [sum(s["target_tokens"] for s in window) / sum(s["seconds"] for s in window) for window in windows]
    flops = _flops_per_target_token(task, translator)
    speed = statistics.median(speeds)
    peak = gpu_peak(task.device, 8192 if task.device.startswith("cuda") else 2048)
    return {
        **task.run._asdict(),
        "parameters": count_parameters(translator.model),
        "steps": lines[-1]["step_num"],
        "target_tokens_seen": sum(step["target_tokens"] for step in lines),
        "seconds_in_steps": round(sum(step["seconds"] for step in lines), 1),
        "tokens_per_second": round(speed),
        "flops_per_target_token": round(flops),
        "tflops": round(speed * flops / 1e12, 4),
        "peak_tflops_bf16": {name: value and round(value, 3) for name, value in peak.items()},
        "curve": {
            "steps_in_a_window": WINDOW,
            "step_num": [window[-1]["step_num"] for window in windows],
            "loss_nats_per_token": [
                round(statistics.fmean(step["loss_nats_per_token"] for step in window), 4) for window in windows
            ],
            "learning_rate": [round(window[-1]["learning_rate"], 7) for window in windows],
            "tokens_per_second": [round(value) for value in speeds],
        },
        "validation": {
            "step_num": [step["step_num"] for step in lines if "val_perplexity" in step],
            "perplexity": [round(step["val_perplexity"], 4) for step in lines if "val_perplexity" in step],
        },
        "trained": json.loads((task.folder / "trained.json").read_text("utf-8")),
    }


def _flops_per_target_token(task: Task, translator: Translator) -> float:
    source, target = task.run.direction.split("-")
    ids = translator.encode(load_pairs("multi30k", "val", source, target))
    sides = [[len(side) + 1 for side in sentences] for sentences in zip(*ids, strict=True)]  # <eos> too
    return training_flops(translator.model.config, *sides) / sum(sides[1])


def _peak_memory(device: str) -> float:
    if device.startswith("cuda"):
        return round(torch.cuda.max_memory_allocated() / 1e9, 3)
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9, 3)


def planned(directions: list[str], seeds: list[int], ablation: str) -> list[Run]:
    """Every seed in every direction with label smoothing; and without it, one seed or none."""
    runs = [Run(direction, seed, 0.1) for seed in seeds for direction in directions]
    return runs + ([Run(direction, seeds[0], 0.0) for direction in directions] if ablation == "smoothing" else [])


def summary(runs: list[dict[str, Any]], split: str) -> dict[str, dict[str, dict[str, Any]]]:
    """For each direction and way of counting: the headline's mean over the seeds, the lowest and the highest."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for run in runs:
        if run["epsilon_ls"]:
            for way, score in run[split][HEADLINE].items():
                found.setdefault(run["direction"], {}).setdefault(way, {}).setdefault("seeds", []).append(score["bleu"])
    for ways in found.values():
        for about in ways.values():
            values = about["seeds"]
            about |= {"mean": round(statistics.fmean(values), 2), "lowest": min(values), "highest": max(values)}
    return found


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    cuda = torch.cuda.is_available()
    parser.add_argument("--config", choices=list(CONFIGS), default="small" if cuda else "tiny")
    parser.add_argument("--directions", nargs="+", choices=["en-de", "de-en"], default=["en-de", "de-en"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--ablation", choices=["smoothing", "none"], default="smoothing")
    parser.add_argument("--minutes", type=float, default=240.0, help="of training, for each run, at most")
    parser.add_argument("--workers", type=int, default=4 if cuda else 1, help="runs side by side")
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--folder", type=Path, help="of the runs (default: checkpoints/multi30k)")
    parser.add_argument("--validation-only", action="store_true", help="leave the test set untouched")
    parser.add_argument("--smoke", action="store_true", help="every stage at a tiny size; nothing is recorded")
    args = parser.parse_args()
    if args.smoke:
        args.config, args.directions, args.seeds = "smoke", ["en-de"], [0]
        args.folder = args.folder or Path(tempfile.mkdtemp(prefix="multi30k-smoke-"))
    args.folder = args.folder or Path("checkpoints/multi30k")
    return args


def main() -> None:
    """Train, score, write the result and the hypotheses of the headline."""
    args = _parsed()
    started = time.monotonic()
    config = CONFIGS[args.config]
    extra = ["precision=bf16", "compile=true"] if args.device.startswith("cuda") else []
    runs = planned(args.directions, args.seeds, args.ablation)
    tasks = [
        Task(run, config, args.folder / args.config / run.name, args.device, args.minutes, args.validation_only, extra)
        for run in runs
    ]
    # A process for each run: the peak of its memory is its own.
    with ProcessPoolExecutor(args.workers, get_context("spawn"), max_tasks_per_child=1) as pool:
        done = list(pool.map(perform, tasks))
    split = "val" if args.validation_only else "test"
    name = f"multi30k_{args.config}" + ("_validation" if args.validation_only else "")
    hypotheses = {run.name: result.pop("hypotheses", None) for run, result in zip(runs, done, strict=True)}
    result = {
        "what": f"Multi30k, both ways of the directions {', '.join(args.directions)}, configuration {args.config}",
        "data": f"multi30k task 1 raw: train to learn, val to watch and choose, {TEST} scored once after training",
        "config": asdict(config) | {"name": args.config, "training_on_this_device": extra},
        "decodings": {name: {"weights": w, "beam_size": b} for name, (w, b) in DECODINGS.items()},
        "headline": {"decoding": HEADLINE, "split": split, "bleu": summary(done, split)},
        "runs": done,
        **provenance(args.seeds[0], time.monotonic() - started),
    }
    folder = args.folder if args.smoke else RESULTS
    path = write_result(name, result, folder)
    for run_name, lines in hypotheses.items():
        if lines is not None:
            (folder / name).mkdir(exist_ok=True)
            (folder / name / f"{run_name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(json.dumps(result["headline"], indent=1))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
