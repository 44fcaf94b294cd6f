"""All that the book records on a GPU, in one command that ends in time and goes on where it stopped.

    TRANSFORMER_LIB_DATA=... python experiments/gpu_record.py --minutes 8.5     on a GPU
    ... --stages check steps                                                    these alone
    ... --smoke --device cpu                                                    every stage, tiny; nothing is recorded

The stages stand in the order of their worth. Each runs in a process of its own, within its share of the time, and
writes what it has found after each measurement. What a stage leaves of its share goes to the next one; at the end of
its share it is killed, and what it has written counts, marked as not complete. A stage that is complete is passed over.
The record is named after the card, so that records of several cards stand side by side; a seal shows later changes.
"""

import argparse
import functools
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.peers import open_peer
from benchmarks.work import GPU, TINY, Work, training_batches
from benchmarks.worker import Training
from experiments import gpu_steps, multi30k
from transformer_lib import BIG, TrainingConfig, Transformer, TransformerConfig, count_parameters, label_smoothing_loss
from transformer_lib.data import load_pairs
from transformer_lib.data.tokenizers import train_tokenizer
from transformer_lib.evaluation import bleu
from transformer_lib.training import StepRecord, adam, epochs, train
from transformer_run.checkpoints import load_checkpoint, save_checkpoint
from transformer_run.translation import translate
from transformer_run.translator import Translator
from transformer_run.update import Update
from workshop.lab.cost import training_flops
from workshop.lab.gpu_peak import copy_gb_per_s, gpu_peak
from workshop.lab.provenance import RESULTS, ROOT, provenance, seal, write_result

RECORDS = RESULTS / "gpu_record"
GRACE = 3.0  # seconds between the request to end and the kill
SMALL = TransformerConfig(vocabulary_size=200, num_layers=2, d_model=64, d_ff=128, num_heads=4, d_k=16, d_v=16)
# Most that a result may differ from the CPU's in float32, as ‖difference‖ / ‖result‖.
BOUNDS = {"fp32": 1e-4, "bf16": 5e-2, "fp16": 1e-2}
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Clock(NamedTuple):
    """Where a stage runs, until when, and where it writes."""

    device: str
    ends: float  # of time.time()
    smoke: bool
    folder: Path

    @property
    def seconds_left(self) -> float:
        """Until the end of the share."""
        return self.ends - time.time()


Save = Callable[[dict[str, Any]], None]  # writes what there is so far


def check(clock: Clock, save: Save) -> None:
    """The oracle on the device: the CPU's results in float32, and a run that goes on from its checkpoint."""
    result: dict[str, Any] = {"bounds": BOUNDS, "differs_from_the_cpu": {}}
    for precision in BOUNDS:
        result["differs_from_the_cpu"][precision] = _differences(clock.device, precision)
        save(result)
    result["resumed"] = _resumed(clock)
    result["kernels"] = _kernels(clock.device)
    save(result)


def _differences(device: str, precision: str) -> dict[str, float]:
    """How far logits, loss and gradient are from the CPU's in float32."""
    found = []
    for where, how in (("cpu", "fp32"), (device, precision)):
        torch.manual_seed(0)
        model = Transformer(SMALL).eval()
        model.to(where)
        batch = gpu_steps.random_batch(SMALL, 512).to(where)
        with torch.autocast(where.split(":")[0], FORMATS[how], enabled=how != "fp32"):
            logits = model(batch.source, batch.target_input)
            loss = label_smoothing_loss(logits, batch.target_output)
        (1024 * loss).backward()  # else float16 loses the smallest gradients
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        found.append([value.detach().float().cpu() for value in (logits, loss, gradient)])
    pairs = zip(("logits", "loss", "gradient"), *found, strict=True)
    return {name: float(f"{((other - own).norm() / own.norm()).item():.2g}") for name, own, other in pairs}


def _resumed(clock: Clock) -> dict[str, Any]:
    """Six steps at once, and three steps, a checkpoint, and three steps of what was loaded from it."""
    settings = TrainingConfig(num_steps=6, warmup_steps=10)
    batches = [gpu_steps.random_batch(SMALL, 256)] * 6
    path = clock.folder / "resumed.safetensors"

    def trained(steps: int, steps_done: int = 0) -> Transformer:
        torch.manual_seed(0)
        model = Transformer(SMALL).to(clock.device)
        optimizer = adam(model, settings)
        if steps_done:
            load_checkpoint(path, model, optimizer)
        for record in train(model, optimizer, batches[steps_done:], settings, steps_done):
            if record.step_num == steps:
                save_checkpoint(path, model, optimizer, steps)
                break
        return model

    whole, _, resumed = trained(6), trained(3), trained(6, 3)
    pairs = zip(whole.parameters(), resumed.parameters(), strict=True)
    return {"largest_difference": max((a - b).abs().max().item() for a, b in pairs)}


def _kernels(device: str) -> list[str]:
    """The kernels that took most of the time of a training step in bf16."""
    model = Transformer(SMALL).to(device)
    batch = gpu_steps.random_batch(SMALL, 4096).to(device)
    with torch.profiler.profile() as profiler:
        Update(model, "bf16").loss(batch, epsilon_ls=0.1).backward()
    events = [event for event in profiler.key_averages() if not event.key.startswith("aten::")]
    events.sort(key=lambda event: -event.self_device_time_total)
    return [event.key[:120] for event in events[:12] if event.self_device_time_total]


def steps(clock: Clock, save: Save) -> None:
    """What each saving brings to a step of the base model, larger batches, the big model, and the recipe's own."""
    work = gpu_steps.SMOKE if clock.smoke else gpu_steps.FULL
    peak = gpu_peak(clock.device, 64 if clock.smoke else 8192)
    result: dict[str, Any] = {
        "model": asdict(work.config) | {"parameters": count_parameters(work.config)},
        "sentence_tokens": gpu_steps.LENGTH,
        "steps": {"not_timed": work.warm_up, "timed": work.steps},
        "peak_tflops_bf16": {name: value and round(value, 4) for name, value in peak.items()},
        "copy_gb_per_s": round(copy_gb_per_s((1 << 12) if clock.smoke else (1 << 29), clock.device), 1),
        **{"forms": {}, "batches": []},
    }
    for form in gpu_steps.FORMS:
        if not form.compile:
            result["forms"][form.name] = gpu_steps.measured(form, work, work.tokens, clock.device)
            save(result)
    best = gpu_steps.FORMS[gpu_steps.BEST]
    recipe = TransformerConfig(vocabulary_size=multi30k.RECIPE.vocabulary_size, **multi30k.RECIPE.model)
    others = {"recipe": recipe, "big": BIG}
    for name, config in others.items():
        size = work if clock.smoke else work._replace(config=config, tokens=2496 if name == "recipe" else work.tokens)
        result[name] = gpu_steps.measured(best, size, size.tokens, clock.device)
        save(result)
    for tokens in work.sweep:
        result["batches"].append(gpu_steps.measured(best, work, tokens, clock.device))
        save(result)


def peers(clock: Clock, save: Save, compiled: bool = False) -> None:
    """The same batches through this library, torch.nn.Transformer and Marian, under autocast in bf16."""
    work = replace(TINY if clock.smoke else GPU, steps=1)
    result: dict[str, Any] = {"shape": vars(work.shape), "tokens_per_second": {}}
    result["target_tokens_of_a_batch"] = training_batches(work)[0].target_tokens
    for name in ("this", "torch", "marian"):
        try:
            found = _peer_speed(f"{name}-bf16", compiled, work, clock.device)
        except Exception as error:  # whatever a peer raises is its result
            found = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
        result["tokens_per_second"][name] = found
        print(f"{name}: {found}", flush=True)
        save(result)


def compiled(clock: Clock, save: Save) -> None:
    """The base model's step and its peers compiled, which takes a minute each: so they come last."""
    work = gpu_steps.SMOKE if clock.smoke else gpu_steps.FULL
    result: dict[str, Any] = {"forms": {}}
    for form in gpu_steps.FORMS:
        if form.compile:
            result["forms"][form.name] = gpu_steps.measured(form, work, work.tokens, clock.device)
            save(result)
    peers(clock, lambda found: save(result | found), compiled=True)


def _peer_speed(name: str, compiled: bool, work: Work, device: str) -> dict[str, Any]:
    torch._dynamo.reset()
    peer = open_peer(name, work.shape, device)
    if compiled and name == "this-bf16":  # as train does it: the model, and the loss in closed form
        peer.model = torch.compile(peer.model, dynamic=True)
    elif compiled:
        peer.loss = torch.compile(peer.loss, dynamic=True)
    training = Training(peer, work, device)
    started = time.perf_counter()
    training.prepare()
    about = {"seconds_until_warm": round(time.perf_counter() - started, 2)}
    rounds = [training.measure("train") for _ in range(2 * work.batches)]
    speeds = [found["amount"] / found["seconds"] for found in rounds]
    found = {"median": statistics.median(speeds), "slowest": min(speeds), "fastest": max(speeds)}
    return {key: round(value) for key, value in found.items()} | about | {"last_loss": round(training.losses[-1], 3)}


def run_multi30k(clock: Clock, save: Save) -> None:
    """The recipe, from raw text to signed BLEU; what the clock cuts is named a share of it."""
    decoding = min(90.0, clock.seconds_left / 4)  # seconds that the translations take
    folder = clock.folder / "multi30k"
    command = [sys.executable, "-m", "experiments.multi30k", "--folder", str(folder), "--device", clock.device]
    command += ["--directions", "en-de", "--seeds", "0", "--workers", "1", "--share"]
    command += ["--minutes", str((clock.seconds_left - decoding) / 60), *(["--smoke"] if clock.smoke else [])]
    subprocess.run(command, check=True, cwd=ROOT)
    (path,) = folder.glob("*/en-de.seed0/translated.json")
    result = json.loads(path.read_text("utf-8"))
    of_all = multi30k.CONFIGS["smoke" if clock.smoke else "long"]
    result["share_of_the_steps"] = round(result["steps"] / of_all.training["num_steps"], 3)
    result["bleu_cased"] = {}
    for split, said in result.pop("translations").items():
        references = [text for _, text in load_pairs("multi30k", split, "en", "de")][: of_all.sentences]
        scores = {name: bleu(lines, references) for name, lines in said.items()}
        about = {name: {"bleu": round(one.score, 2), "signature": one.signature} for name, one in scores.items()}
        result["bleu_cased"][split] = about
    save(result)


def decode(clock: Clock, save: Save) -> None:
    """Sentences a second, greedily and with a beam, with 1, 64 and 512 sentences side by side."""
    folders = list((clock.folder / "multi30k").glob("*/en-de.seed0/checkpoints"))
    name = "the run of Multi30k" if folders else "tatoeba_en_de"
    translator = Translator.load(folders[0].parent if folders else name, clock.device, "latest")
    tokenizers = (translator.source_tokenizer, translator.target_tokenizer)
    sources = [text for text, _ in load_pairs("multi30k", "test_2016_flickr", "en", "de")]
    result: dict[str, Any] = {"translator": name, "sentences_per_second": {}}
    for beam_size, batch_size in product((1, 4), (1, 64, 512)):
        some = sources[: 4 if clock.smoke else 50 if batch_size == 1 else 1000]
        how = (*tokenizers, batch_size, beam_size)
        translate(translator.model, some[:batch_size], *how)
        started = time.perf_counter()
        translate(translator.model, some, *how)
        speed = len(some) / (time.perf_counter() - started)
        result["sentences_per_second"][f"beam {beam_size}, {batch_size} side by side"] = round(speed, 1)
        save(result)


def base(clock: Clock, save: Save) -> None:
    """The paper's base model and batches on Tatoeba, for as many updates as the share has room for."""
    pairs = load_pairs("tatoeba", "train", "en", "de")[: 2000 if clock.smoke else None]
    size = 500 if clock.smoke else 32_000  # pieces; these texts have not enough for 37,000
    tokenizer = train_tokenizer("bpe", (side for pair in pairs for side in pair), None, size)
    ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    work = gpu_steps.SMOKE if clock.smoke else gpu_steps.FULL
    config = replace(work.config, vocabulary_size=len(tokenizer))
    settings = TrainingConfig(num_steps=6, batch_tokens=500) if clock.smoke else TrainingConfig(num_steps=2000)
    torch.manual_seed(0)
    model = Transformer(config).to(clock.device)
    about = {"vocabulary_size": len(tokenizer), "batch_tokens": settings.batch_tokens, "pairs": len(pairs)}
    batches, update, records = epochs(ids, config, settings), Update(model, "bf16"), []
    for record in train(model, adam(model, settings), batches, settings, update=update):
        records.append(record)
        if record.step_num % (2 if clock.smoke else 50) == 0 or clock.seconds_left < 2:
            save(about | _curve(records, config))
        if clock.seconds_left < 2:
            break


def _curve(records: list[StepRecord], config: TransformerConfig) -> dict[str, Any]:
    """The loss over the updates, and what 100,000 updates take at the speed of the later half."""
    later, shown = records[len(records) // 2 :], records[:: max(1, len(records) // 40)]
    seconds = statistics.median(record.seconds for record in later)
    speed = sum(record.target_tokens for record in later) / sum(record.seconds for record in later)
    return {
        "updates": len(records),
        "seconds_in_steps": round(sum(record.seconds for record in records), 1),
        "first_step_seconds": round(records[0].seconds, 1),
        "seconds_per_step": round(seconds, 4),
        "tokens_per_second": round(speed),
        "tflops_at_30_tokens": round(speed * training_flops(config, [30], [30]) / 30 / 1e12, 4),
        "hours_of_100000_steps_reckoned": round(100_000 * seconds / 3600, 2),
        "step_num": [record.step_num for record in shown],
        "loss_nats_per_token": [round(record.loss_nats_per_token, 3) for record in shown],
    }


# What is measured, and its share of the minutes.
STAGES: dict[str, tuple[Callable[[Clock, Save], None], float]] = {
    "check": (check, 0.5),
    "steps": (steps, 0.75),
    "peers": (peers, 0.5),
    "multi30k": (run_multi30k, 4.25),
    "decode": (decode, 0.25),
    "base": (base, 0.75),
    "compiled": (compiled, 1.5),
}


def run_stage(name: str, clock: Clock) -> None:
    """Measure in this process; write the stage's file after each measurement, and at the end that it is complete."""
    started = time.monotonic()
    found: dict[str, Any] = {}

    def save(result: dict[str, Any], complete: bool = False) -> None:
        found.update(result)
        about = provenance(0, time.monotonic() - started)
        write_result(name, {"complete": complete, **found, **about}, clock.folder)

    if clock.smoke:  # compilation needs a C++ compiler, and minutes
        torch.compile = functools.partial(torch.compile, backend="eager")
    STAGES[name][0](clock, save)
    save({}, complete=True)


def run_within(command: list[str], seconds: float) -> int | None:
    """The exit status of a command; None: it and all that it started were killed at the end of the time."""
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    for wait, stop in ((seconds, signal.SIGTERM), (GRACE, signal.SIGKILL)):
        try:
            status = process.wait(max(0.0, wait))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, stop)
        else:
            return status if stop == signal.SIGTERM else None
    process.wait()
    return None


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """What the stages have written so far."""
    paths = {name: folder / f"{name}.json" for name in STAGES}
    return {name: json.loads(path.read_text("utf-8")) for name, path in paths.items() if path.exists()}


def work_through(args: argparse.Namespace) -> None:
    """Run the stages that are not complete, each until its share ends."""
    started = time.monotonic()
    open_stages = [name for name in args.stages if not results(args.folder).get(name, {}).get("complete")]
    planned = sum(STAGES[name][1] for name in open_stages)
    shares = {name: STAGES[name][1] / planned * args.minutes * 60 for name in open_stages}
    shares = {name: share - GRACE for name, share in shares.items()}
    for i, name in enumerate(open_stages):
        later = sum(shares[other] + GRACE for other in open_stages[i + 1 :])
        seconds = args.minutes * 60 - GRACE - later - (time.monotonic() - started)
        seconds = seconds if name == "multi30k" or args.minutes < planned / 2 else min(seconds, 2 * shares[name])
        command = [sys.executable, "-m", "experiments.gpu_record", "--run", name]
        command += ["--ends", str(time.time() + seconds), "--device", args.device]
        command += ["--folder", str(args.folder), *(["--smoke"] if args.smoke else [])]
        began = time.monotonic()
        status = run_within(command, seconds)
        how = "killed at the end of its share" if status is None else "done" if status == 0 else f"failed, {status}"
        print(f"{name}: {how}, {time.monotonic() - began:.0f} of {seconds:.0f} s", flush=True)
    left = [name for name in STAGES if not results(args.folder).get(name, {}).get("complete")]
    print(f"left: {', '.join(left) or 'nothing'}")


def main() -> None:
    """Work through the stages; write the record of this card."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=8.5, help="in all; more let Multi30k end on a slower card")
    parser.add_argument("--stages", nargs="+", choices=list(STAGES), default=list(STAGES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--folder", type=Path, default=Path("checkpoints/gpu_record"), help="of the stages' results")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes; no record is written")
    parser.add_argument("--run", choices=list(STAGES), help=argparse.SUPPRESS)
    parser.add_argument("--ends", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.smoke and not torch.cuda.is_available():
        raise SystemExit("gpu_record needs a GPU; --smoke --device cpu shows whether its stages run")
    args.folder = args.folder.resolve()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.run:
        run_stage(args.run, Clock(args.device, args.ends, args.smoke, args.folder))
        return
    started = time.monotonic()
    work_through(args)
    record = {"what": "the records of one GPU", "stages": results(args.folder)}
    record |= provenance(0, time.monotonic() - started)
    card = re.sub(r"[^a-z0-9]+", "_", record["device"].lower())
    folder = args.folder if args.smoke else RECORDS
    print(f"written to {write_result(f'{card}', seal(record), folder)}")


if __name__ == "__main__":
    main()
