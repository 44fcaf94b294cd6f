"""All that the book records on a GPU, in one command that ends in time and goes on where it stopped.

    TRANSFORMER_LIB_DATA=... python -m experiments.gpu_record --minutes 9.5     on a GPU
    ... --minutes 4 --share                          goes on; a run that has not ended translates as it is
    ... --stages check steps                         these alone
    ... --smoke --device cpu                         every stage, tiny; nothing is recorded

The stages stand in the order of their worth, the whole runs first. Each runs in a process of its own, has all the time
that is left, and writes what it has found after each measurement. At the end of the time it is killed, and what it has
written counts, marked as not complete. A stage that is complete is passed over; a run goes on from its last checkpoint.
The record is named after the card, so that records of several cards stand side by side; a seal shows later changes.
`--out` leaves, every 30 seconds, what another machine needs in a few small files. There the archive is unpacked into
`checkpoints/gpu_record`, and `multi30k.py --config whole --folder checkpoints/gpu_record/multi30k` scores the runs.
"""

import argparse
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from experiments import gpu_steps, multi30k
from experiments.by_command import steps_of
from transformer_lib import TrainingConfig, Transformer, TransformerConfig, count_parameters, label_smoothing_loss
from transformer_lib.data import load_pairs
from transformer_lib.training import adam, train
from transformer_run.checkpoints import load_checkpoint, save_checkpoint
from transformer_run.translation import translate
from transformer_run.translator import Translator
from transformer_run.update import Update
from workshop.lab.gpu_peak import copy_gb_per_s, gpu_peak
from workshop.lab.provenance import RESULTS, ROOT, provenance, seal, write_result

RECORDS = RESULTS / "gpu_record"
GRACE = 3.0  # seconds between the request to end and the kill
EVERY = 30.0  # seconds from one writing of what another machine needs to the next
TRANSLATING = 75.0  # seconds that preparing a run and translating with it may take, beside training
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
    share: bool  # whether a run that has not ended translates

    @property
    def seconds_left(self) -> float:
        """Until then."""
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


def trial(clock: Clock, save: Save) -> None:
    """The update of the whole runs in TF32 and in bf16, for seconds: the faster one trains."""
    config = multi30k.CONFIGS["smoke" if clock.smoke else "whole"]
    sizes = TransformerConfig(vocabulary_size=config.vocabulary_size, **config.model)
    tokens, r_drop = config.training["batch_tokens"], config.training["r_drop"]
    work = gpu_steps.Work(sizes, tokens, tokens, *((1, 2) if clock.smoke else (10, 100)), r_drop)
    found = {}
    for precision, form in gpu_steps.TRIED.items():
        found[precision] = gpu_steps.measured(gpu_steps.FORMS[form], work, tokens, clock.device)
    speeds = {precision: one.get("tokens_per_second", 0) for precision, one in found.items()}
    save(found | {"r_drop": r_drop, "faster": max(speeds, key=speeds.__getitem__)})


def whole(clock: Clock, save: Save, seed: int) -> bool:
    """A run with R-Drop to its end, and its translations; whether it has ended."""
    folder, name = clock.folder / "multi30k", "smoke" if clock.smoke else "whole"
    run = folder / name / f"en-de.seed{seed}"
    minutes = max(0.01, (clock.seconds_left - min(TRANSLATING, clock.seconds_left / 4)) / 60)
    if clock.smoke and not any(run.glob("checkpoints/step-*")):  # one update; the next call goes on
        minutes = 1e-6
    command = [sys.executable, "-m", "experiments.multi30k", "--folder", str(folder), "--device", clock.device]
    command += ["--config", name, "--directions", "en-de", "--seeds", str(seed), "--workers", "1", "--eager"]
    command += ["--precision", results(clock.folder).get("trial", {}).get("faster", "bf16"), "--minutes", str(minutes)]
    command += [*(["--smoke"] if clock.smoke else []), *(["--share"] if clock.share else [])]
    subprocess.run(command, check=True, cwd=ROOT)
    path, updates = run / "translated.json", steps_of(run)[-1]["step_num"]
    ended = path.exists() and json.loads(path.read_text("utf-8"))["ended"]
    save({"updates": updates, "most": multi30k.CONFIGS[name].training["num_steps"], "ended": ended})
    return ended


def steps(clock: Clock, save: Save, compiled: bool = False) -> None:
    """What each saving brings to a step of the base model, and the paper's batch; compiling takes a minute each."""
    work = gpu_steps.SMOKE if clock.smoke else gpu_steps.FULL
    peak = gpu_peak(clock.device, 64 if clock.smoke else 8192)
    result: dict[str, Any] = {
        "model": asdict(work.config) | {"parameters": count_parameters(work.config)},
        "sentence_tokens": gpu_steps.LENGTH,
        "steps": {"not_timed": work.warm_up, "timed": work.steps},
        "peak_tflops_bf16": {name: value and round(value, 4) for name, value in peak.items()},
        "copy_gb_per_s": round(copy_gb_per_s((1 << 12) if clock.smoke else (1 << 29), clock.device), 1),
        **{"forms": {}, "larger": {}},
    }
    forms = [form for form in gpu_steps.FORMS if form.compile == compiled]
    for part, tokens, some in (("forms", work.tokens, forms), ("larger", work.larger, forms[-2:])):
        for form in some:
            result[part][form.name] = gpu_steps.measured(form, work, tokens, clock.device)
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


STAGES: dict[str, Callable[[Clock, Save], bool | None]] = {
    "trial": trial,
    "seed0": functools.partial(whole, seed=0),
    "seed1": functools.partial(whole, seed=1),
    "check": check,
    "steps": steps,
    "decode": decode,
    "compiled": functools.partial(steps, compiled=True),
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
    save({}, complete=STAGES[name](clock, save) is not False)


def run_within(command: list[str], seconds: float, meanwhile: Callable[[], None] = lambda: None) -> int | None:
    """The exit status of a command; None: it and all that it started were killed at the end of the time.

    Args:
        meanwhile: is called every 30 seconds, and at the end.
    """
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    ends = time.monotonic() + seconds
    while process.poll() is None and (left := ends - time.monotonic()) > 0:
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(left, EVERY))
        meanwhile()
    status = process.poll()
    if status is None:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        with suppress(ProcessLookupError):  # nothing is left of it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        meanwhile()
    return status


def bring(folder: Path, out: Path) -> None:
    """What another machine needs: of each run the last weights and the last ones' mean, in 16 bits; texts, packed."""
    for run in folder.glob("multi30k/*/*.seed?"):
        for which in ("latest", "average"):
            with suppress(OSError, ValueError):  # there is none yet, or the run has removed an old one meanwhile
                translator = Translator.load(run, "cpu", which)
                translator.model.half()
                translator.save(out / f"{run.name}.{which}")
    part = out / "texts.part"
    with tarfile.open(part, "w:gz") as archive:
        for path in sorted(folder.rglob("*.json*")):
            archive.add(path, path.relative_to(folder))
    part.replace(out / "texts.tgz")


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """What the stages have written so far."""
    paths = {name: folder / f"{name}.json" for name in STAGES}
    return {name: json.loads(path.read_text("utf-8")) for name, path in paths.items() if path.exists()}


def work_through(args: argparse.Namespace) -> None:
    """Run the stages that are not complete, in order, until the time ends."""

    def is_complete(name: str) -> bool:
        return results(args.folder).get(name, {}).get("complete", False)

    ends = time.time() + args.minutes * 60 - GRACE
    for name in args.stages:
        if is_complete(name) or (name == "seed1" and not is_complete("seed0")) or time.time() > ends:
            continue
        command = [sys.executable, "-m", "experiments.gpu_record", "--run", name, "--ends", str(ends)]
        command += ["--device", args.device, "--folder", str(args.folder)]
        command += [*(["--smoke"] if args.smoke else []), *(["--share"] if args.share else [])]
        began = time.monotonic()
        status = run_within(command, ends - time.time(), lambda: args.out and bring(args.folder, args.out))
        how = "killed at the end of the time" if status is None else f"failed, {status}" if status else "done"
        print(f"{name}: {how}, {time.monotonic() - began:.0f} s", flush=True)
        if status == 0 and not is_complete(name):  # a run that its own clock stopped: nothing comes before its end
            break
    print(f"left: {', '.join(name for name in STAGES if not is_complete(name)) or 'nothing'}")


def main() -> None:
    """Work through the stages; write the record of this card."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9.5, help="in all; training stops 75 seconds before")
    parser.add_argument("--stages", nargs="+", choices=list(STAGES), default=list(STAGES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--folder", type=Path, default=Path("checkpoints/gpu_record"), help="of the stages' results")
    parser.add_argument("--out", type=Path, help="folder for what another machine needs, and for the record")
    parser.add_argument("--share", action="store_true", help="let a run that has not ended translate as it is")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes; no record is written")
    parser.add_argument("--run", choices=list(STAGES), help=argparse.SUPPRESS)
    parser.add_argument("--ends", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.smoke and not torch.cuda.is_available():
        raise SystemExit("gpu_record needs a GPU; --smoke --device cpu shows whether its stages run")
    args.folder = args.folder.resolve()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.run:
        run_stage(args.run, Clock(args.device, args.ends, args.smoke, args.folder, args.share))
        return
    started = time.monotonic()
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    work_through(args)
    record = {"what": "the records of one GPU", "stages": results(args.folder)}
    record |= provenance(0, time.monotonic() - started)
    card = re.sub(r"[^a-z0-9]+", "_", record["device"].lower())
    folder = args.out or (args.folder if args.smoke else RECORDS)
    print(f"written to {write_result(f'{card}', seal(record), folder)}")


if __name__ == "__main__":
    main()
