"""Multi30k from raw text to signed BLEU scores, in both directions: one command, on any device.

    TRANSFORMER_LIB_DATA=... python experiments/multi30k.py                the headline: three seeds, both directions
    ... --directions en-de --seeds 0                                       one run of it
    ... --config search --validation-only --changes p_drop=0.2             what a setting brings, on validation alone
    ... --smoke                                                            every stage, in a minute or two

A run is a direction, a seed and the settings changed in its configuration. Each is trained through the command line's
own `train`, then translates, then is scored. What is done is not done again; what the clock cut goes on from its last
checkpoint. α and the checkpoints that are averaged are chosen on the validation set; the two test sets are read after
that. A machine without spaCy and sacremoses leaves the translations in the folder, and another one scores them there.
The result holds all runs of the configuration that stand in the folder, and keeps those that it held before.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from transformer_lib import TransformerConfig, average_checkpoints, count_parameters
from transformer_lib.config import TrainingConfig
from transformer_lib.data import load_pairs
from transformer_lib.data.tokenizers import word_splitter
from transformer_lib.decoding import Alpha
from transformer_lib.evaluation import bleu
from transformer_run import cli
from transformer_run.settings import OF_THE_UPDATE, assignments
from transformer_run.translator import Translator
from transformer_run.update import chosen_precision
from workshop.lab.cost import training_flops
from workshop.lab.gpu_peak import gpu_peak, peak_memory
from workshop.lab.provenance import RESULTS, provenance, write_result

BEAM = 5  # as in the literature on this corpus; the paper's is 4
TESTS = ("test_2016_flickr", "test_2017_flickr")
Weights = Literal["latest", "average", "apart", "longer"]
# Means of the last checkpoints: how many, and every which one.
MEANS: dict[Weights, tuple[int, int]] = {"average": (10, 1), "apart": (10, 2), "longer": (20, 1)}


class Decoding(NamedTuple):
    """How translations are made: from which weights, with how many candidates, ranked how."""

    weights: Weights
    beam_size: int
    alpha: Alpha = 0.6

    @property
    def name(self) -> str:
        """Such as "beam 5, alpha 0.6, average"."""
        how = "greedy" if self.beam_size == 1 else f"beam {self.beam_size}, alpha {self.alpha}"
        return f"{how}, {self.weights}"


# On the validation set; the best of these beams on averaged weights is the headline on the test sets.
ALPHAS: tuple[Alpha, ...] = (0.6, 1.0, 1.4, 1.8, "length")
GREEDY = [Decoding("latest", 1), Decoding("average", 1)]
BEAMS = [Decoding("average", BEAM, alpha) for alpha in ALPHAS]
PAPER = BEAMS[0]
SEARCH = [GREEDY[1], PAPER, BEAMS[-1]]  # what a search of settings compares
# What a run leaves in its folder, by --validation-only.
TRANSLATED = {True: "translated_validation.json", False: "translated.json"}
DONE = {True: "validated.json", False: "scored.json"}
WINDOW = 50  # steps whose loss and speed are written down together


@dataclass(frozen=True)
class Config:
    """Sizes and settings. With `changed`, a run may have others."""

    model: dict[str, Any]
    training: dict[str, Any]
    vocabulary_size: int = 6000
    validate_every: int = 240  # steps
    keep_last: int = 20  # checkpoints, of which the means are made
    patience: int | None = None  # validations that bring nothing better; None: to the end
    sentences: int | None = None  # of the validation and test sets; None: all

    def changed(self, changes: tuple[str, ...]) -> "Config":
        """The configuration with other settings, such as "p_drop=0.2"."""
        own, model, training = {}, dict(self.model), dict(self.training)
        for key, value in assignments(changes).items():
            if key in OWN_SETTINGS:
                own[key] = value
            elif key in TransformerConfig.__dataclass_fields__:
                model[key] = value
            elif key in TrainingConfig.__dataclass_fields__ or key in OF_THE_UPDATE:
                training[key] = value
            else:
                raise ValueError(f"no configuration has a setting {key!r}")
        return replace(self, model=model, training=training, **own)


OWN_SETTINGS = {"vocabulary_size", "validate_every", "keep_last", "patience"}
# multi30k_recipe.json holds six runs of it before commit 134c8e0ec66d: half as long, with sentences a little out of the
# order of their lengths, stopped by patience.
# Small updates and an ordinary rate, so that an epoch of about 210 updates brings much on a CPU; 145 epochs of them,
# the most that the literature's command allows.
RECIPE = Config(
    {"num_layers": 2, "d_model": 256, "d_ff": 512, "num_heads": 4, "d_k": 64, "d_v": 64, "p_drop": 0.3},
    {"num_steps": 31_000, "batch_tokens": 2500, "warmup_steps": 1500},
)
CONFIGS = {
    "long": RECIPE,
    # The same with R-Drop (Liang et al., 2021), a method that the paper could not know.
    "r_drop": replace(RECIPE, training=RECIPE.training | {"r_drop": 5.0}),
    # The same as a whole run: it ends with ten validations that bring nothing better, or with all its steps.
    "whole": replace(RECIPE, training=RECIPE.training | {"r_drop": 5.0}, keep_last=10, patience=10),
    # Seven epochs, with less dropout than a long run wants: what a setting brings is compared after as many tokens.
    "search": replace(
        RECIPE,
        model=RECIPE.model | {"p_drop": 0.2},
        training=RECIPE.training | {"num_steps": 1900, "warmup_steps": 800},
        keep_last=10,
        patience=10,
    ),
    # The text-only model that the literature found best on this corpus (Wu et al., 2021): narrow, with much dropout,
    # 8,192 tokens an update and a rate that rises to 0.005. 145 epochs at most.
    "literature": Config(
        {"num_layers": 4, "d_model": 128, "d_ff": 256, "num_heads": 4, "d_k": 32, "d_v": 32, "p_drop": 0.3},
        {"num_steps": 8000, "batch_tokens": 2048, "accumulate": 4, "warmup_steps": 2000, "rate_factor": 2.53},
        vocabulary_size=10_000,
        validate_every=60,
    ),
    "smoke": Config(
        {"num_layers": 1, "d_model": 32, "d_ff": 64, "num_heads": 2, "d_k": 16, "d_v": 16, "p_drop": 0.1},
        {"num_steps": 24, "batch_tokens": 1000, "warmup_steps": 10},
        vocabulary_size=600,
        validate_every=8,
        sentences=12,
    ),
}


class Run(NamedTuple):
    """What sets one run apart from the others."""

    direction: str  # "en-de" or "de-en"
    seed: int
    changes: tuple[str, ...] = ()  # of the configuration's settings

    @property
    def name(self) -> str:
        """Of its files."""
        return ".".join([self.direction, f"seed{self.seed}", *self.changes])


@dataclass(frozen=True)
class Task:
    """A run, and where and how it happens."""

    run: Run
    config: Config
    folder: Path
    device: str
    minutes: float
    validation_only: bool
    workers: int  # runs side by side
    on_device: list[str]  # training settings that follow from the device
    share: bool = False  # of a run that the clock cut, translate what there is

    @property
    def languages(self) -> list[str]:
        """Source and target."""
        return self.run.direction.split("-")

    def sides(self, split: str) -> tuple[list[str], list[str]]:
        """Sources and references of a split, as many as the configuration asks for."""
        pairs = load_pairs("multi30k", split, *self.languages)[: self.config.sentences]
        return [text for text, _ in pairs], [text for _, text in pairs]

    def metrics(self) -> list[dict[str, Any]]:
        """The record of each step so far."""
        path = self.folder / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line] if path.exists() else []

    def has_ended(self) -> bool:
        """Whether all steps are made, or patience ended them."""
        lines = self.metrics()
        if not lines or lines[-1]["step_num"] >= self.config.training["num_steps"]:
            return bool(lines)
        perplexities = [line["val_perplexity"] for line in lines if "val_perplexity" in line]
        since_best = len(perplexities) - 1 - perplexities.index(min(perplexities))
        return self.config.patience is not None and since_best >= self.config.patience

    def translator(self, weights: Weights) -> Translator:
        """The trained translator, with its last weights or a mean of them."""
        translator = Translator.load(self.folder, self.device, "latest")
        if weights != "latest":
            number, every = MEANS[weights]
            paths = sorted(self.folder.glob("checkpoints/step-*.safetensors"))[-self.config.keep_last :]
            chosen = paths[::-1][::every][:number]
            translator.model.load_state_dict(average_checkpoints(chosen))
        return translator

    def translations(self, split: str, decoding: Decoding) -> list[str]:
        """What the trained model says of a split."""
        sources, how = self.sides(split)[0], {"beam_size": decoding.beam_size, "alpha": decoding.alpha}
        return self.translator(decoding.weights).translate(sources, progress=True, **how)


def perform(task: Task) -> None:
    """Train one run, or go on with it; then let it translate; then score it. What is done is not done again."""
    done, translated = task.folder / DONE[task.validation_only], task.folder / TRANSLATED[task.validation_only]
    cut = translated.exists() and not json.loads(translated.read_text("utf-8"))["ended"]
    if not translated.exists() or (cut and any(task.folder.glob("checkpoints/step-*"))):
        if not task.has_ended():
            started = time.monotonic()
            if status := cli.main(["train", *_arguments(task)]):
                raise SystemExit(status)
            memory = {name: round(gb, 3) for name, gb in peak_memory(task.device).items()}
            trained = provenance(task.run.seed, time.monotonic() - started) | memory | {"workers": task.workers}
            (task.folder / "trained.json").write_text(json.dumps(trained), "utf-8")
        if not task.has_ended() and not task.share:
            print(f"{task.run.name}: cut by the clock; the same command goes on with it", file=sys.stderr)
            return
        _write(translated, _training_summary(task) | _translated(task))
    if not done.exists() and can_count_words():
        _write(done, _scored(task, json.loads(translated.read_text("utf-8"))))


def _write(path: Path, content: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    part.replace(path)


def can_count_words() -> bool:
    """Whether the words of spaCy and of the Moses scripts can be counted here."""
    return all(find_spec(package) for package in ("spacy", "sacremoses"))


def _translated(task: Task) -> dict[str, Any]:
    """The translations, with what was chosen on the validation set: α first, then the mean of checkpoints."""
    references = task.sides("val")[1]
    said = {"val": {d: task.translations("val", d) for d in (SEARCH if task.validation_only else GREEDY + BEAMS)}}

    def best(decodings: Iterable[Decoding]) -> Decoding:
        return max(decodings, key=lambda d: bleu(said["val"][d], references).score)

    chosen = best(d for d in BEAMS if d in said["val"])
    if not task.validation_only:
        fit = [weights for weights, (number, every) in MEANS.items() if number * every <= task.config.keep_last]
        means = [chosen._replace(weights=weights) for weights in fit]
        said["val"] |= {d: task.translations("val", d) for d in means[1:]}
        chosen = best(means)
        tests = dict.fromkeys([GREEDY[0], PAPER, chosen])
        said |= {split: {d: task.translations(split, d) for d in tests} for split in TESTS}
    named = {split: {d.name: lines for d, lines in of.items()} for split, of in said.items()}
    return {"ended": task.has_ended(), "chosen": chosen.name, "translations": named}


def _scored(task: Task, result: dict[str, Any]) -> dict[str, Any]:
    """The scores in place of the translations, of which the two that matter stay."""
    said, language = result.pop("translations"), task.languages[1]
    scored = {}
    for split, of in said.items():
        references = task.sides(split)[1]
        scored[split] = {name: scores(lines, references, language) for name, lines in of.items()}
    result["val"] = scored.pop("val")
    if not task.validation_only:
        of_tests = {split: of for split, of in said.items() if split != "val"}
        result["test"] = scored
        result["hypotheses"] = {
            split: {"greedy": of[GREEDY[0].name], "beam": of[result["chosen"]]} for split, of in of_tests.items()
        }
    return result


def scores(hypotheses: list[str], references: list[str], language: str) -> dict[str, dict[str, Any]]:
    """BLEU in three ways of counting words, each with its parts and its signature.

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
    scores = {}
    for name, (prepared, tokenize) in ways.items():
        sides = [[prepared(line) for line in side] for side in (hypotheses, references)]
        score = bleu(sides[0], sides[1], lowercase=tokenize == "none", tokenize=tokenize)
        scores[name] = {
            "bleu": round(score.score, 2),
            "precisions": [round(value, 2) for value in score.precisions],
            "brevity_penalty": round(score.brevity_penalty, 4),
            "length_ratio": round(score.length_ratio, 4),
            "signature": score.signature,
        }
    return scores


def moses_words(language: str) -> Callable[[str], str]:
    """A function from a line to its words as the corpus's scripts make them: lower case, punctuation, tokenizer."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return lambda line: " ".join(tokenizer.tokenize(normalizer.normalize(line.lower())))


def _arguments(task: Task) -> list[str]:
    config, (source, target) = task.config, task.languages
    training = config.training | {"seed": task.run.seed} | dict(setting.split("=") for setting in task.on_device)
    return [
        *(str(task.folder), "--device", task.device, "--minutes", str(task.minutes)),
        *("--data", "multi30k", "--source", source, "--target", target),
        *("--vocabulary-size", str(config.vocabulary_size), "--validate-every", str(config.validate_every)),
        *("--keep-last", str(config.keep_last)),
        *(["--patience", str(config.patience)] if config.patience else []),
        *("--model", *(f"{name}={value}" for name, value in config.model.items())),
        *("--training", *(f"{name}={value}" for name, value in training.items())),
        *(["--resume"] if any(task.folder.glob("checkpoints/step-*")) else []),
    ]


def _training_summary(task: Task) -> dict[str, Any]:
    """What metrics.jsonl holds, in windows of some steps; the cost of a step; where the run comes from."""
    lines = task.metrics()
    translator = Translator.load(task.folder)
    windows = [lines[start : start + WINDOW] for start in range(0, len(lines), WINDOW)]
    speeds = [sum(s["target_tokens"] for s in window) / sum(s["seconds"] for s in window) for window in windows]
    trained = json.loads((task.folder / "trained.json").read_text("utf-8"))
    alone = trained.get("workers") == 1
    seen = sum(step["target_tokens"] for step in lines)
    epoch = sum(len(ids) + 1 for _, ids in translator.encode(load_pairs("multi30k", "train", *task.languages)))
    result = {
        **task.run._asdict(),
        "training_on_this_device": task.on_device,
        "parameters": count_parameters(translator.model),
        "steps": lines[-1]["step_num"],
        "target_tokens_seen": seen,
        "epochs": round(seen / epoch, 2),
        "seconds_in_steps": round(sum(step["seconds"] for step in lines), 1),
        **_speed(statistics.median(speeds), _flops_per_target_token(task, translator), task.device, alone),
        "validation": {
            "step_num": [step["step_num"] for step in lines if "val_perplexity" in step],
            "perplexity": [round(step["val_perplexity"], 4) for step in lines if "val_perplexity" in step],
        },
        "trained": trained,
    }
    if not task.validation_only:
        result["curve"] = {
            "step_num": [window[-1]["step_num"] for window in windows],
            "loss_nats_per_token": [
                round(statistics.fmean(step["loss_nats_per_token"] for step in window), 4) for window in windows
            ],
            "learning_rate": [round(window[-1]["learning_rate"], 7) for window in windows],
            "tokens_per_second": [round(value) if alone else None for value in speeds],
        }
    return result


def _speed(tokens_per_second: float, flops: float, device: str, alone: bool) -> dict[str, Any]:
    """The speed of a run and what its device could do. Of runs that shared a device, nobody knows either."""
    found: dict[str, Any] = {"tokens_per_second": None, "tflops": None, "peak_tflops_bf16": None}
    if alone:
        peak = gpu_peak(device, 8192 if device.startswith("cuda") else 512)
        found["tokens_per_second"] = round(tokens_per_second)
        found["tflops"] = round(tokens_per_second * flops / 1e12, 4)
        found["peak_tflops_bf16"] = {name: value and float(f"{value:.3g}") for name, value in peak.items()}
    return {"flops_per_target_token": round(flops), **found}


def _flops_per_target_token(task: Task, translator: Translator) -> float:
    ids = translator.encode(load_pairs("multi30k", "val", *task.languages))
    sides = [[len(side) + 1 for side in sentences] for sentences in zip(*ids, strict=True)]  # <eos> too
    return training_flops(translator.model.config, *sides) / sum(sides[1])


def data_read(runs: Iterable[dict[str, Any]]) -> str:
    """Which part of the corpus served what in these runs."""
    tests = f"; {' and '.join(TESTS)} scored after training" if any("test" in run for run in runs) else ""
    return f"multi30k task 1 raw: train to learn; val to watch, to stop and to choose alpha{tests}"


def merged(recorded: Iterable[dict[str, Any]], new: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs of both, in order; a new one takes the place of a recorded one."""
    runs = {(r["direction"], r["seed"], tuple(r["changes"])): r for r in (*recorded, *new)}
    return [runs[key] for key in sorted(runs)]


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """For each direction and test set: the score of the chosen beam and of greedy decoding, in each way of counting:
    mean over the seeds, lowest, highest. Runs with changed settings do not count."""
    by_direction: dict[str, dict[str, dict[str, Any]]] = {}
    for run in (run for run in runs if not run["changes"]):
        for split, decodings in run["test"].items():
            part = by_direction.setdefault(run["direction"], {}).setdefault(split, {"beam": {}, "greedy": {}})
            for how, name in (("beam", run["chosen"]), ("greedy", GREEDY[0].name)):
                for way, score in decodings[name].items():
                    part[how].setdefault(way, []).append(score["bleu"])
    for parts in (parts for splits in by_direction.values() for hows in splits.values() for parts in hows.values()):
        for way, values in parts.items():
            mean = round(statistics.fmean(values), 2)
            parts[way] = {"mean": mean, "lowest": min(values), "highest": max(values), "seeds": len(values)}
    return by_direction


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    cuda = torch.cuda.is_available()
    parser.add_argument("--config", choices=list(CONFIGS), default="long")
    parser.add_argument("--changes", nargs="+", default=[], metavar="KEY=VALUE", help="settings of this run alone")
    parser.add_argument("--directions", nargs="+", choices=["en-de", "de-en"], default=["en-de", "de-en"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=600.0, help="of training, for each run, at most")
    parser.add_argument("--workers", type=int, default=4 if cuda else 1, help="runs side by side")
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16", "fp16"], help="default: bf16; on old GPUs fp16")
    parser.add_argument("--folder", type=Path, help="of the runs (default: checkpoints/multi30k)")
    parser.add_argument("--share", action="store_true", help="let a run that the clock cut translate as it is")
    parser.add_argument("--validation-only", action="store_true", help="leave the test sets untouched")
    parser.add_argument("--smoke", action="store_true", help="every stage at a tiny size; nothing is recorded")
    args = parser.parse_args()
    if args.smoke:
        args.config, args.directions, args.seeds = "smoke", ["en-de"], [0]
        args.folder = args.folder or Path(tempfile.mkdtemp(prefix="multi30k-smoke-"))
    args.folder = args.folder or Path("checkpoints/multi30k")
    return args


def main() -> None:
    """Train, score, write the result and the hypotheses."""
    args = _parsed()
    started = time.monotonic()
    cuda = args.device.startswith("cuda")
    changes = tuple(sorted(args.changes))
    config = CONFIGS[args.config].changed(changes)
    # On a CPU as the recorded runs had it.
    chosen = "bf16" if args.device == "cpu" else chosen_precision("auto", torch.device(args.device))
    precision = config.training.get("precision") or args.precision or chosen
    on_device = [f"precision={precision}", *(["compile=true"] if cuda else [])]
    tasks = []
    for run in (Run(direction, seed, changes) for seed in args.seeds for direction in args.directions):
        folder = args.folder / args.config / run.name
        how = (args.device, args.minutes, args.validation_only, args.workers, on_device, args.share)
        tasks.append(Task(run, config, folder, *how))
    # A process for each run: the peak of its memory is its own.
    with ProcessPoolExecutor(args.workers, get_context("spawn"), max_tasks_per_child=1) as pool:
        list(pool.map(perform, tasks))
    if not can_count_words():
        print("translated; a machine with spaCy and sacremoses scores it by the same command", file=sys.stderr)
        return
    # All runs of the folder, also those of other commands.
    paths = sorted((args.folder / args.config).glob(f"*/{DONE[args.validation_only]}"))
    done = [json.loads(path.read_text("utf-8")) for path in paths]
    name = f"multi30k_{args.config}"
    results = args.folder if args.smoke else RESULTS
    hypotheses = {path.parent.name: run.pop("hypotheses", {}) for path, run in zip(paths, done, strict=True)}
    about = asdict(CONFIGS[args.config]) | {"name": args.config}
    path = results / f"{name}.json"
    before = json.loads(path.read_text("utf-8")) if path.exists() else {"config": about, "runs": []}
    if before["config"] != about:
        raise ValueError(f"{path} holds runs of another configuration {args.config}; move it away first")
    runs = merged(before["runs"], done)
    result = {
        "what": f"Multi30k, configuration {args.config}",
        "data": data_read(runs),
        "config": about,
        "decodings": {d.name: d._asdict() for d in GREEDY + BEAMS},
        "headline": {} if args.validation_only else summary(runs),
        "runs": runs,
        **provenance(args.seeds[0], time.monotonic() - started),
    }
    write_result(name, result, results)
    for run_name, splits in hypotheses.items():
        for split, hows in splits.items():
            for how, lines in hows.items():
                (results / name).mkdir(exist_ok=True)
                text = "".join(f"{line}\n" for line in lines)
                (results / name / f"{run_name}.{split}.{how}.txt").write_text(text, encoding="utf-8")
    print(json.dumps(result["headline"], indent=1))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
