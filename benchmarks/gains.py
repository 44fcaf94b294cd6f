"""What each saving in the training step brings, and how near the machine's limits the step comes.

    python benchmarks/gains.py            writes experiments/results/benchmark_gains.json
    python benchmarks/gains.py --tiny     in seconds, writes nothing

A saving is measured against the same loop without it. The two take turns, step by step on the same batches, and a gain
is the ratio of the two times of a turn: what slows the machine down slows down both. Batches come in two kinds,
bucketed and as they come; each runs with one thread and with two. The limits are measured on the spot: matrix products
in float32 and bf16, and the bandwidth of a copy that is larger than any cache.
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers.this import Peer, training_config
from benchmarks.run import RESULTS, load, provenance, say
from benchmarks.work import (
    BETAS,
    EPSILON,
    FULL,
    KINDS,
    TINY,
    PaddedBatch,
    Work,
    check_losses,
    padding,
    rate,
    training_batches,
)
from benchmarks.worker import THREADS, threads_of
from transformer_lib import MultiHeadAttention, Transformer, label_smoothing
from transformer_lib.data import Batch
from transformer_lib.training import adam, train
from transformer_run.update import Update, autocast
from workshop.lab.gpu_peak import copy_gb_per_s, product_gflops
from workshop.lab.provenance import write_result


class PlainLoss(Update):
    """The loss as its formula, differentiated operation by operation."""

    def loss(self, batch: Batch, epsilon_ls: float) -> Tensor:
        """The sum of the losses of all real target tokens."""
        with autocast(self.precision, self.device):
            logits = self.forward(batch.source, batch.target_input)
            return label_smoothing.token_losses(logits, batch.target_output, epsilon_ls).sum()


class Kernel(MultiHeadAttention):
    """PyTorch's fused attention in bf16, too; the weights are those of another one."""

    def __init__(self, own: MultiHeadAttention):
        nn.Module.__init__(self)
        vars(self).update(vars(own))

    def attend(self, query: Tensor, heads_key: Tensor, heads_value: Tensor, mask: Tensor | None = None) -> Tensor:
        """The heads in one kernel."""
        heads_query = self.query_projection(query).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(heads_query, heads_key, heads_value, mask)
        return self.output_projection(heads.transpose(1, 2).flatten(2))


def always_the_kernel(model: nn.Module) -> None:
    """Put Kernel in the place of every attention."""
    for module in list(model.modules()):
        for name, part in module.named_children():
            if isinstance(part, MultiHeadAttention):
                setattr(module, name, Kernel(part))


@dataclass(frozen=True)
class Loop:
    """One form of the library's training step: its precision, its loss, its optimizer, its attention."""

    precision: Any = "fp32"
    update: type[Update] = Update
    fused: bool = True
    kernel: bool = False


FLOAT, HALF = Loop(), Loop("bf16")
# Name → the loop with the saving, and without it.
SAVINGS = {
    "gradient of the loss in closed form, float32": (FLOAT, Loop(update=PlainLoss)),
    "gradient of the loss in closed form, bf16": (HALF, Loop("bf16", PlainLoss)),
    "attention written out, bf16": (HALF, Loop("bf16", kernel=True)),
    "Adam in one kernel, float32": (FLOAT, Loop(fused=False)),
    "bf16 instead of float32": (HALF, FLOAT),
}


class Run(Peer):
    """A loop with a model of its own, whose steps are those of `train`."""

    model: Transformer

    def __init__(self, loop: Loop, work: Work):
        torch.manual_seed(work.seed)
        super().__init__(work.shape)
        self.done, self.losses = 0, []
        if loop.kernel:
            always_the_kernel(self.model)
        update = loop.update(self.model, loop.precision)
        optimizer = adam(self.model, training_config())
        if not loop.fused:  # Adam as PyTorch makes it by default
            optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, betas=BETAS, eps=EPSILON)
        self.steps = train(self.model, optimizer, self._fed(), training_config(), update=update)

    def step(self, batches: list[PaddedBatch]) -> float:
        """Seconds of the next step."""
        batch = batches[self.done % len(batches)]
        self.done += 1
        start = time.perf_counter()
        self.losses.append(self.train_step(batch, rate(self.done, self.shape.d_model)))
        return time.perf_counter() - start


def gain(loops: tuple[Loop, Loop], work: Work, turns: int) -> dict[str, Any]:
    """Seconds of a step with the saving, and how many times as long one without it takes."""
    batches = training_batches(work)
    with_it, without = (Run(loop, work) for loop in loops)
    seconds, times_as_long = [], []
    for turn in range(-work.warm_up, turns):
        order = (with_it, without) if turn % 2 else (without, with_it)
        taken = {run: run.step(batches) for run in order}
        if turn >= 0:
            seconds.append(taken[with_it])
            times_as_long.append(taken[without] / taken[with_it])
    for run in (with_it, without):
        check_losses(run.losses)
    low, median, high = statistics.quantiles(times_as_long, n=4)
    return {"seconds": statistics.median(seconds), "median": median, "quartiles": [low, high], "turns": turns}


def measure(work: Work, threads: tuple[int, ...], turns: int) -> list[dict[str, Any]]:
    """Every saving, on both kinds of batches, with each number of threads."""
    gains = []
    for kind, spread in KINDS.items():
        of_kind = replace(work, spread=spread)
        for count in threads:
            torch.set_num_threads(count)
            for saving, loops in SAVINGS.items():
                place = {"saving": saving, "batches": kind, "threads": count}
                before = load()
                gains.append(place | gain(loops, of_kind, turns) | {"load": before})
                say(f"  {gains[-1]}")
    return gains


def roofline(work: Work) -> dict[str, Any]:
    """GFLOP/s of matrix products, large and of this model's own shapes, and GB/s of a copy (read and written)."""
    rows = sum(batch.target_input.numel() for batch in training_batches(work)) // work.batches
    d, large = work.shape.d_model, 128 if work.tiny else 2048
    shapes = {
        "large": (large, large, large),
        "feed-forward": (rows, d, work.shape.d_ff),
        "logits": (rows, d, work.shape.vocabulary),
    }
    formats = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    products = {
        f"{name} {m}×{k}×{n}": {kind: product_gflops(m, k, n, dtype) for kind, dtype in formats.items()}
        for name, (m, k, n) in shapes.items()
    }
    return {"gflops": products, "copy_gb_per_s": copy_gb_per_s((1 << 16) if work.tiny else (1 << 26))}


def main() -> None:
    """Measure the limits and the savings; write; print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="at tiny sizes, in seconds")
    parser.add_argument(
        "--output", type=Path, help="default: benchmark_gains.json of the experiments; none with --tiny"
    )
    parser.add_argument("--turns", type=int)
    parser.add_argument("--threads", type=int, nargs="+", default=list(range(1, THREADS + 1)))
    arguments = parser.parse_args()
    work = TINY if arguments.tiny else replace(FULL, warm_up=2)
    threads = (threads_of(work),) if arguments.tiny else tuple(arguments.threads)
    torch.set_num_threads(threads[-1])
    start = time.perf_counter()
    result = {
        "what": "what each saving in the training step brings, and the machine's limits",
        "roofline": roofline(work),
        "padding": {kind: padding(training_batches(replace(work, spread=spread))) for kind, spread in KINDS.items()},
        "gains": measure(work, threads, arguments.turns or (4 if arguments.tiny else 15)),
    }
    result |= provenance(work.seed, time.perf_counter() - start)
    if arguments.output or not arguments.tiny:
        path = arguments.output or RESULTS / "benchmark_gains.json"
        say(f"written: {write_result(path.stem, result, path.parent)}")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
