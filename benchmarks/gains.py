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
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

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
from transformer_lib import Transformer, fast
from transformer_lib.training import adam, train
from transformer_run.update import Update


def library_adam(model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer that `train`'s users get."""
    return adam(model, training_config())  # pyright: ignore[reportArgumentType]


def pytorchs_adam(model: nn.Module) -> torch.optim.Optimizer:
    """Adam as PyTorch makes it by default."""
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=BETAS, eps=EPSILON)


class _LossByAutograd:
    # The loss as its formula, differentiated operation by operation.
    @staticmethod
    def apply(logits: torch.Tensor, target: torch.Tensor, epsilon_ls: float) -> torch.Tensor:
        log_probabilities = logits.float().log_softmax(dim=-1)
        right_token = log_probabilities.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return -(1 - epsilon_ls) * right_token - epsilon_ls * log_probabilities.mean(dim=-1)


def loss_by_autograd() -> AbstractContextManager[Any]:
    """No closed form of the loss's gradient."""
    return patch.object(fast, "SmoothedCrossEntropy", _LossByAutograd)


def always_the_kernel() -> AbstractContextManager[Any]:
    """PyTorch's fused attention in bf16, too."""
    return patch.object(fast, "WRITTEN_OUT", 0)


@dataclass(frozen=True)
class Loop:
    """One form of the library's training step.

    Args:
        context: entered around every step.
        optimizer: makes the optimizer of the model.
    """

    bf16: bool = False
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] = library_adam


FLOAT, HALF = Loop(), Loop(bf16=True)
# Name → the loop with the saving, and without it.
SAVINGS = {
    "gradient of the loss in closed form, float32": (FLOAT, Loop(context=loss_by_autograd)),
    "gradient of the loss in closed form, bf16": (HALF, Loop(True, loss_by_autograd)),
    "attention written out, bf16": (HALF, Loop(True, always_the_kernel)),
    "Adam in one kernel, float32": (FLOAT, Loop(optimizer=pytorchs_adam)),
    "bf16 instead of float32": (HALF, FLOAT),
}


class Run(Peer):
    """A loop with a model of its own, whose steps are those of `train`."""

    model: Transformer

    def __init__(self, loop: Loop, work: Work):
        torch.manual_seed(work.seed)
        super().__init__(work.shape, bf16=loop.bf16)
        self.loop, self.done, self.losses = loop, 0, []
        update = Update(self.model, "bf16" if loop.bf16 else "fp32")
        self.steps = train(self.model, loop.optimizer(self.model), self._fed(), training_config(), update=update)

    def step(self, batches: list[PaddedBatch]) -> float:
        """Seconds of the next step."""
        batch = batches[self.done % len(batches)]
        self.done += 1
        start = time.perf_counter()
        with self.loop.context():
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


def roofline(work: Work, tiny: bool = False) -> dict[str, Any]:
    """GFLOP/s of matrix products, large and of this model's own shapes, and GB/s of a copy (read and written)."""
    rows = sum(batch.target_input.numel() for batch in training_batches(work)) // work.batches
    d, large = work.shape.d_model, 128 if tiny else 2048
    shapes = {
        "large": (large, large, large),
        "feed-forward": (rows, d, work.shape.d_ff),
        "logits": (rows, d, work.shape.vocabulary),
    }
    products = {
        f"{name} {m}×{k}×{n}": {
            str(dtype).removeprefix("torch."): _gflops(m, k, n, dtype) for dtype in (torch.float32, torch.bfloat16)
        }
        for name, (m, k, n) in shapes.items()
    }
    source = torch.randn((1 << 16) if tiny else (1 << 26))
    target = torch.empty_like(source)
    seconds = _best(lambda: target.copy_(source))
    return {"gflops": products, "copy_gb_per_s": 2 * source.numel() * 4 / seconds / 1e9}


def _gflops(m: int, k: int, n: int, dtype: torch.dtype) -> float:
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    return 2 * m * k * n / _best(lambda: a @ b) / 1e9


def _best(run: Callable[[], object]) -> float:
    # The limit is what the machine can do at its best.
    seconds = []
    for _ in range(7):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = ["| saving | batches | threads | times as long without it (quartiles) |", "| --- | --- | ---: | ---: |"]
    for found in result["gains"]:
        low, high = found["quartiles"]
        share = f"{found['batches']}, {result['padding'][found['batches']]:.0%} padding"
        lines.append(
            f"| {found['saving']} | {share} | {found['threads']} | {found['median']:.2f} ({low:.2f}–{high:.2f}) |"
        )
    limits = result["roofline"]
    lines += ["", "| matrix product | float32, GFLOP/s | bf16, GFLOP/s |", "| --- | ---: | ---: |"]
    lines += [f"| {name} | {f['float32']:.0f} | {f['bfloat16']:.0f} |" for name, f in limits["gflops"].items()]
    return "\n".join([*lines, "", f"A large copy: {limits['copy_gb_per_s']:.1f} GB/s, read and written."])


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
    threads = (threads_of("tiny"),) if arguments.tiny else tuple(arguments.threads)
    torch.set_num_threads(threads[-1])
    provenance(work.seed, 0.0)  # notes the commit now
    start = time.perf_counter()
    result = {
        "what": "what each saving in the training step brings, and the machine's limits",
        "roofline": roofline(work, arguments.tiny),
        "padding": {kind: padding(training_batches(replace(work, spread=spread))) for kind, spread in KINDS.items()},
        "gains": measure(work, threads, arguments.turns or (4 if arguments.tiny else 15)),
    }
    result |= provenance(work.seed, time.perf_counter() - start)
    if arguments.output or not arguments.tiny:
        path = arguments.output or RESULTS / "benchmark_gains.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written: {path}", file=sys.stderr)
    print(table(result))


if __name__ == "__main__":
    main()
