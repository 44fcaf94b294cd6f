"""One training on 1, 2 and 4 processes: the loss curves, two workers killed on the way, and what the exchange costs.

    python experiments/many_processes.py

Each run is the command line's own `train` under torchrun, over gloo, on this machine. Dropout is off: with it, each
process draws its own, and curves of different numbers of processes agree in distribution only.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from experiments.by_command import given, steps_of
from transformer_lib import TransformerConfig, count_parameters
from workshop.lab.experiment import each, record
from workshop.lab.provenance import ROOT
from workshop.lab.small_model import number_words

SEEDS = [0, 1, 2]
PROCESSES = [1, 2, 4]
KILLED_AFTER = [17, 41]  # steps on record when a worker is killed
MODEL = {"num_layers": 1, "d_model": 64, "d_ff": 128, "num_heads": 4, "d_k": 16, "d_v": 16, "p_drop": 0.0}
TRAINING = {"num_steps": 60, "batch_tokens": 300, "accumulate": 4, "warmup_steps": 200}
VALIDATE_EVERY = 10
GRADIENTS = {"this model": None, "base": 63_045_632}  # numbers exchanged in an update
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}

EXCHANGE = """
import json, sys, time, torch
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
gradient, seconds = torch.ones(int(sys.argv[1])), []
for _ in range(7):
    torch.distributed.barrier()
    started = time.perf_counter()
    torch.distributed.all_reduce(gradient)
    seconds.append(time.perf_counter() - started)
if torch.distributed.get_rank() == 0:
    print(json.dumps(seconds[1:]))
torch.distributed.destroy_process_group()
"""


def launcher(processes: int) -> list[str]:
    """The beginning of a command line that starts so many processes."""
    start = ["--standalone", "--nproc-per-node", str(processes), "--max-restarts", "3"]
    return [sys.executable, "-m", "torch.distributed.run", *start]


def train_command(folder: Path, processes: int, seed: int) -> list[str]:
    """The ordinary training command under torchrun."""
    arguments = ["--data", "number_words", "--source", "en", "--target", "de", "--device", "cpu", "--threads", "1"]
    settings = ["--model", *given(MODEL), "--training", *given(TRAINING | {"seed": seed})]
    every = ["--validate-every", str(VALIDATE_EVERY)]
    return [*launcher(processes), "-m", "transformer_run", "train", str(folder), *arguments, *every, *settings]


def resumed_steps(said: str) -> list[int]:
    """The steps of the checkpoints from which a run says that it went on."""
    return [int(step) for step in re.findall(r"^resumed from .*step-(\d+)\.safetensors$", said, re.MULTILINE)]


def workers(process: subprocess.Popen[str]) -> list[int]:
    """Ids of the processes that a launcher started."""
    listed = ["ps", "-o", "pid=", "--ppid", str(process.pid)]
    return [int(pid) for pid in subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()]


def one_run(processes: int, seed: int, killed_after: list[int]) -> dict[str, Any]:
    """Train to the end; kill a random worker whenever so many steps are on record."""
    generator, kills = random.Random(seed), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "run")
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(train_command(folder, processes, seed), env=ENVIRONMENT, **quiet) as process:
            for wanted in killed_after:
                while len(steps_of(folder)) < wanted and process.poll() is None:
                    time.sleep(0.005)
                steps = len(steps_of(folder))
                ids = workers(process)
                worker = generator.randrange(len(ids))
                os.kill(ids[worker], signal.SIGKILL)
                kills.append({"worker": worker, "steps_on_record": steps})
                while len(steps_of(folder)) >= steps and process.poll() is None:
                    time.sleep(0.005)  # until the restarted run has cut the file back to its checkpoint
            said = process.communicate()[1]
        if process.returncode:
            raise SystemExit(said[-3000:])
        lines = steps_of(folder)
    resumed = resumed_steps(said)
    for kill, step in zip(kills, resumed, strict=True):
        kill["resumed_from_step"] = step
    return {
        "processes": processes,
        "seed": seed,
        "kills": kills,
        "loss_nats_per_token": [line["loss_nats_per_token"] for line in lines],
        "val_perplexity": [line["val_perplexity"] for line in lines if "val_perplexity" in line],
        "target_tokens": sum(line["target_tokens"] for line in lines),
    }


def exchange(gradient: str, numbers: int, processes: int) -> dict[str, Any]:
    """Seconds of all-reducing so many float32 numbers, six times."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "exchange.py")
        program.write_text(EXCHANGE, "utf-8")
        command = [*launcher(processes), str(program), str(numbers)]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    seconds = [round(value, 5) for value in json.loads(done.stdout)]
    return {"gradient": gradient, "numbers": numbers, "processes": processes, "seconds": seconds}


def measured() -> dict[str, Any]:
    """The record of all runs, and of the exchange alone."""
    cases = [*((processes, []) for processes in PROCESSES), (2, KILLED_AFTER)]
    runs = each(one_run, [(processes, seed, kills) for seed in SEEDS for processes, kills in cases])
    size = count_parameters(TransformerConfig(vocabulary_size=len(number_words().tokenizer), **MODEL))
    sizes = {name: numbers or size for name, numbers in GRADIENTS.items()}
    return {
        "what": "one training on 1, 2 and 4 processes over gloo on one machine; two workers of 2 processes killed",
        "data": "number words, English to German, 20,000 pairs",
        "model": MODEL,
        "parameters": size,
        "training": TRAINING | {"validate_every": VALIDATE_EVERY},
        "runs": runs,
        "exchanges": each(exchange, [(*gradient, count) for gradient in sizes.items() for count in PROCESSES[1:]]),
    }


if __name__ == "__main__":
    record("many_processes", __doc__, measured)
