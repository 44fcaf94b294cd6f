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
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from experiments.by_command import given, precision_on, steps_of, train, validations
from transformer_lib import TransformerConfig, average_checkpoints, count_parameters
from transformer_lib.data import load_pairs
from transformer_lib.data.tokenizers import word_splitter
from transformer_lib.decoding import Alpha
from transformer_lib.evaluation import bleu
from transformer_run.settings import RunConfig, assignments
from transformer_run.training_run import Metrics
from transformer_run.translator import Translator
from workshop.lab.cost import training_flops
from workshop.lab.experiment import runs as kept_runs
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
TRANSLATED = {True: "translated_validation", False: "translated"}
DONE = {True: "validated", False: "scored"}


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
        """The configuration with other settings, such as "p_drop=0.2". Raises ValueError as the command line does."""
        training = assignments(changes)
        own = {name: training.pop(name) for name in OWN_SETTINGS & training.keys()}
        model = {name: training.pop(name) for name in TransformerConfig.__dataclass_fields__ if name in training}
        RunConfig().changed(own, model, training)
        return replace(self, model=self.model | model, training=self.training | training, **own)


OWN_SETTINGS = {"vocabulary_size", "validate_every", "keep_last", "patience"}
# multi30k_recipe.json holds six runs of it before commit 134c8e0ec66d: half as long, with sentences a little out of the
# order of their lengths, stopped by patience.
# Small updates and an ordinary rate, so that an epoch of about 210 updates brings much on a CPU; 145 to 148 epochs,
# about the most that the literature's command allows.
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
        {"num_steps": 24, "batch_tokens": 1000, "warmup_steps": 10, "r_drop": 5.0},
        vocabulary_size=600,
        validate_every=8,
        patience=10,
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
    args: argparse.Namespace  # of the command line
    on_device: list[str]  # training settings that follow from the device

    @property
    def languages(self) -> list[str]:
        """Source and target."""
        return self.run.direction.split("-")

    def sides(self, split: str) -> tuple[list[str], list[str]]:
        """Sources and references of a split, as many as the configuration asks for."""
        pairs = load_pairs("multi30k", split, *self.languages)[: self.config.sentences]
        return [text for text, _ in pairs], [text for _, text in pairs]

    def has_ended(self) -> bool:
        """Whether all steps are made, or patience ended them."""
        seen = Metrics(None)
        for step in steps_of(self.folder):
            seen.write(step)
        steps = seen.last.get("step_num", 0)
        return steps >= self.config.training["num_steps"] or seen.since_best >= (self.config.patience or math.inf)

    def translator(self, weights: Weights) -> Translator:
        """The trained translator, with its last weights or a mean of them."""
        translator = Translator.load(self.folder, self.args.device, "latest")
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


def perform(task: Task) -> dict[str, Any] | None:
    """Train one run, or go on with it; then let it translate; then score it.

    Returns:
        The scores, with the translations that matter; None: the clock cut it, or another machine must score it.
    """
    path = task.folder / f"{TRANSLATED[task.args.validation_only]}.json"
    translated = json.loads(path.read_text("utf-8")) if path.exists() else None
    if not translated or (not translated["ended"] and any(task.folder.glob("checkpoints/step-*"))):
        if not task.has_ended():
            started = time.monotonic()
            products = "high" if task.args.precision == "tf32" else "highest"
            torch.set_float32_matmul_precision(products)
            train(task.folder, *_arguments(task))
            torch.set_float32_matmul_precision("highest")  # of the translations
            memory = {name: round(gb, 3) for name, gb in peak_memory(task.args.device).items()}
            trained = provenance(task.run.seed, time.monotonic() - started) | memory | {"workers": task.args.workers}
            write_result("trained", trained | {"float32_products": products}, task.folder)
        if not task.has_ended() and not task.args.share:
            print(f"{task.run.name}: cut by the clock; the same command goes on with it", file=sys.stderr)
            return None
        translated = _training_summary(task) | _translated(task)
        write_result(path.stem, translated, task.folder)
    return _scored(task, translated) if can_count_words() else None


def can_count_words() -> bool:
    """Whether the words of spaCy and of the Moses scripts can be counted here."""
    return all(find_spec(package) for package in ("spacy", "sacremoses"))


def _translated(task: Task) -> dict[str, Any]:
    """The translations, with what was chosen on the validation set: α first, then the mean of checkpoints."""
    references = task.sides("val")[1]
    said = {"val": {d: task.translations("val", d) for d in (SEARCH if task.args.validation_only else GREEDY + BEAMS)}}

    def best(decodings: Iterable[Decoding]) -> Decoding:
        return max(decodings, key=lambda d: bleu(said["val"][d], references).score)

    chosen = best(d for d in BEAMS if d in said["val"])
    if not task.args.validation_only:
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
    if not task.args.validation_only:
        result["test"] = scored
        both = {"greedy": GREEDY[0].name, "beam": result["chosen"]}
        result["hypotheses"] = {split: {how: said[split][name] for how, name in both.items()} for split in scored}
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
    training = given(config.training | {"seed": task.run.seed} | assignments(task.on_device))
    return [
        *("--device", task.args.device, "--minutes", str(task.args.minutes)),
        *("--data", "multi30k", "--source", source, "--target", target),
        *("--vocabulary-size", str(config.vocabulary_size), "--validate-every", str(config.validate_every)),
        *("--keep-last", str(config.keep_last)),
        *(["--patience", str(config.patience)] if config.patience else []),
        *("--model", *given(config.model), "--training", *training),
    ]


def _training_summary(task: Task) -> dict[str, Any]:
    """What metrics.jsonl holds, in sum; the cost of a step; where the run comes from."""
    lines, translator = steps_of(task.folder), Translator.load(task.folder)
    speed = statistics.median(step["target_tokens"] / step["seconds"] for step in lines)
    trained = json.loads((task.folder / "trained.json").read_text("utf-8"))
    alone = trained.get("workers") == 1
    seen = sum(step["target_tokens"] for step in lines)
    epoch = sum(len(ids) + 1 for _, ids in translator.encode(load_pairs("multi30k", "train", *task.languages)))
    ids = translator.encode(load_pairs("multi30k", "val", *task.languages))
    sides = [[len(side) + 1 for side in sentences] for sentences in zip(*ids, strict=True)]  # <eos> too
    flops = training_flops(translator.model.config, *sides) / sum(sides[1])
    return {
        **task.run._asdict(),
        "training_on_this_device": task.on_device,
        "parameters": count_parameters(translator.model),
        "steps": lines[-1]["step_num"],
        "target_tokens_seen": seen,
        "epochs": round(seen / epoch, 2),
        "seconds_in_steps": round(sum(step["seconds"] for step in lines), 1),
        **_speed(speed, flops, task.args.device, alone),
        "validation": validations(lines),
        "trained": trained,
    }


def _speed(tokens_per_second: float, flops: float, device: str, alone: bool) -> dict[str, Any]:
    """The speed of a run and what its device could do. Of runs that shared a device, nobody knows either."""
    found: dict[str, Any] = {"tokens_per_second": None, "tflops": None, "peak_tflops_bf16": None}
    if alone:
        peak = gpu_peak(device, 8192 if device.startswith("cuda") else 512)
        found["tokens_per_second"] = round(tokens_per_second)
        found["tflops"] = round(tokens_per_second * flops / 1e12, 4)
        found["peak_tflops_bf16"] = {name: value and float(f"{value:.3g}") for name, value in peak.items()}
    return {"flops_per_target_token": round(flops), **found}


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
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], help="default: bf16 where it is fast")
    parser.add_argument("--eager", action="store_true", help="without the compiler, which takes a GPU minutes first")
    parser.add_argument("--folder", type=Path, help="of the runs (default: checkpoints/multi30k)")
    parser.add_argument("--share", action="store_true", help="let a run that the clock cut translate as it is")
    parser.add_argument("--validation-only", action="store_true", help="leave the test sets untouched")
    parser.add_argument("--smoke", action="store_true", help="every stage at a tiny size; nothing is recorded")
    args = parser.parse_args()
    if args.smoke:
        args.config, args.directions, args.seeds = "smoke", ["en-de"], args.seeds[:1]
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
    precision = config.training.get("precision") or args.precision or precision_on(args.device)
    on_device = ["precision=fp32" if precision == "tf32" else f"precision={precision}"]
    on_device += ["compile=true"] if cuda and not args.eager else []
    folder, done, cases = args.folder / args.config, DONE[args.validation_only], {}
    for run in (Run(direction, seed, changes) for seed in args.seeds for direction in args.directions):
        cases[f"{run.name}/{done}"] = (Task(run, config, folder / run.name, args, on_device),)
    kept_runs(folder, perform, cases, args.workers)
    # All runs of the folder, also those of other commands.
    paths = sorted(folder.glob(f"*/{done}.json"))
    if not paths:
        print("no run is scored yet; the same command scores it where spaCy and sacremoses are", file=sys.stderr)
        return
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
    tests = f"; {' and '.join(TESTS)} scored after training" if any("test" in run for run in runs) else ""
    result = {
        "what": f"Multi30k, configuration {args.config}",
        "data": "multi30k task 1 raw: train to learn; val to watch, to stop and to choose alpha" + tests,
        "config": about,
        "headline": {} if args.validation_only else summary(runs),
        "runs": runs,
        **provenance(args.seeds[0], time.monotonic() - started),
    }
    write_result(name, result, results)
    for run_name, splits in hypotheses.items():
        for (split, hows), how in product(splits.items(), ("greedy", "beam")):
            (results / name).mkdir(exist_ok=True)
            text = "".join(f"{line}\n" for line in hows[how])
            (results / name / f"{run_name}.{split}.{how}.txt").write_text(text, encoding="utf-8")
    print(json.dumps(result["headline"], indent=1))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
