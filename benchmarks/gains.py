"""What each step of the optimisation brought to the training step, and how near the machine's limits it comes.

    python benchmarks/gains.py            writes experiments/results/benchmark_gains.json
    python benchmarks/gains.py --tiny     in seconds, writes nothing

The first variant has none of the library's savings; each further one adds a line to all before it, and one more leaves
the finished loop and turns a single thing the other way. A round runs all variants once, beginning with another one
each time, and a gain is the ratio of two times of the same round. The limits are measured on the spot:
matrix products in float32 and bf16, and the bandwidth of a copy that is larger than any cache.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from benchmarks.peers.this import Peer, training_config
from benchmarks.run import RESULTS, load, provenance, say
from benchmarks.work import BETAS, EPSILON, FULL, TINY, PaddedBatch, Work, check_losses, rate, ratios, training_batches
from benchmarks.worker import THREADS, threads_of
from transformer_lib import TrainingConfig, Transformer, attention, fast, fast_stacks, training
from transformer_lib.data import Batch
from transformer_lib.training import train


def library_adam(model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer that `train`'s users get."""
    from transformer_lib.training import adam

    return adam(model, training_config())


def adam_with(**options: bool) -> Callable[[nn.Module], torch.optim.Optimizer]:
    """PyTorch's Adam in one of its forms."""
    return lambda model: torch.optim.Adam(model.parameters(), lr=0.0, betas=BETAS, eps=EPSILON, **options)


@contextmanager
def attention_written_out() -> Iterator[None]:
    """Equation (1) as it stands in the paper, instead of the fused kernel."""

    def written_out(query: Any, key: Any, value: Any, mask: Any = None, **_: Any) -> Any:
        return attention.scaled_dot_product_attention(query, key, value, mask)[0]

    with patch.object(fast, "attention", written_out):
        yield


def _padded_loss(forward: Any, batch: Batch, config: TrainingConfig, pad_id: int) -> torch.Tensor:
    logits = forward(batch.source, batch.target_input)
    return fast.token_losses(logits, batch.target_output, config.epsilon_ls, pad_id).sum()


class _LossByAutograd:
    # The loss as its formula, differentiated operation by operation.
    @staticmethod
    def apply(logits: torch.Tensor, target: torch.Tensor, epsilon_ls: float) -> torch.Tensor:
        log_probabilities = logits.float().log_softmax(dim=-1)
        right_token = log_probabilities.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return -(1 - epsilon_ls) * right_token - epsilon_ls * log_probabilities.mean(dim=-1)


def logits_at_padding_too() -> AbstractContextManager[Any]:
    """Logits for every position of the batch, as most loops have it."""
    return patch.object(training, "batch_loss", _padded_loss)


def padding_in_the_layers() -> AbstractContextManager[Any]:
    """Layers that compute padding as they do words."""
    return patch.object(fast_stacks, "leaves_padding_out", lambda *_: False)


def loss_by_autograd() -> AbstractContextManager[Any]:
    """No closed form of the loss's gradient."""
    return patch.object(fast, "SmoothedCrossEntropy", _LossByAutograd)


def pytorchs_dropout() -> AbstractContextManager[Any]:
    """A random number of its own for every decision."""
    return patch.object(fast.Dropout, "forward", nn.Dropout.forward)


def all_of(*contexts: Callable[[], AbstractContextManager[Any]]) -> Callable[[], AbstractContextManager[Any]]:
    """These contexts at once."""

    @contextmanager
    def together() -> Iterator[None]:
        with ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context())
            yield

    return together


@dataclass(frozen=True)
class Variant:
    """One form of the library's training step.

    Args:
        context: entered around every step of this variant.
        optimizer: makes the optimizer of its model.
        bf16: train with TrainingConfig(precision="bf16").
    """

    name: str
    context: Callable[[], AbstractContextManager[None]] = nullcontext
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] = library_adam
    bf16: bool = False


PLAIN_ADAM = adam_with(foreach=False, fused=False)
# The first is the base. Each "+" adds to all before it; the others turn one thing the other way in the finished loop.
VARIANTS = (
    Variant(
        "plain", all_of(padding_in_the_layers, pytorchs_dropout, loss_by_autograd, logits_at_padding_too), PLAIN_ADAM
    ),
    Variant(
        "+ logits at real tokens alone", all_of(padding_in_the_layers, pytorchs_dropout, loss_by_autograd), PLAIN_ADAM
    ),
    Variant("+ gradient of the loss in closed form", all_of(padding_in_the_layers, pytorchs_dropout), PLAIN_ADAM),
    Variant("+ dropout from 16 bits a decision", padding_in_the_layers, PLAIN_ADAM),
    Variant("+ Adam in one kernel", padding_in_the_layers),
    Variant("+ layers at real tokens alone"),
    Variant("+ bf16 autocast", bf16=True),
    Variant("attention written out, float32", attention_written_out),
)


class Run(Peer):
    """One variant with a model of its own, whose steps are those of `train`."""

    def __init__(self, variant: Variant, work: Work):
        torch.manual_seed(work.seed)
        super().__init__(work.shape, bf16=variant.bf16)
        self.variant, self.done, self.losses = variant, 0, []
        self.model: Transformer
        config = training_config(variant.bf16)
        self.steps = train(self.model, variant.optimizer(self.model), self._fed(), config)

    def step(self, batches: list[PaddedBatch]) -> float:
        """Seconds of the next step."""
        batch = batches[self.done % len(batches)]
        self.done += 1
        start = time.perf_counter()
        with self.variant.context():
            self.losses.append(self.train_step(batch, rate(self.done, self.shape.d_model)))
        return time.perf_counter() - start


def measure(variants: tuple[Variant, ...], work: Work) -> dict[str, Any]:
    """Seconds of a step for every variant and round, and how much slower or faster than the first variant."""
    batches = training_batches(work)
    runs, left_out = {}, {}
    for variant in variants:
        try:
            run = Run(variant, work)
            for _ in range(work.warm_up):
                run.step(batches)
            check_losses(run.losses)
            runs[variant.name] = run
        except (AttributeError, RuntimeError) as error:
            left_out[variant.name] = f"{type(error).__name__}: {error}"
            say(f"{variant.name} is left out: {error}")
    rounds: dict[str, list[float]] = {name: [] for name in runs}
    loads = []
    for number in range(work.rounds):
        loads.append(load())
        order = list(runs)
        first = number % len(order)
        for name in order[first:] + order[:first]:
            runs[name].step(batches)  # gets caches going
            seconds = [runs[name].step(batches) for _ in range(work.steps)]
            rounds[name].append(statistics.fmean(seconds))
        shown = ", ".join(f"{name} {values[-1]:.3g} s" for name, values in rounds.items())
        say(f"round {number + 1} of {work.rounds}, load {loads[-1]}: {shown}")
    base = rounds[variants[0].name]
    summaries = {
        name: {
            "seconds": statistics.median(values),
            "rounds": values,
            "time_over_base": ratios(values, base),
            "last_loss": runs[name].losses[-1],
        }
        for name, values in rounds.items()
    }
    return {"base": variants[0].name, "variants": summaries, "left_out": left_out, "loads": loads}


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
    lines = ["| variant | seconds a step | time against the plain loop (rounds) |", "| --- | ---: | ---: |"]
    for name, variant in result["variants"].items():
        over = variant["time_over_base"]
        lines.append(
            f"| {name} | {variant['seconds']:.3f} | {over['median']:.2f} ({over['min']:.2f}–{over['max']:.2f}) |"
        )
    limits = result["roofline"]
    lines += ["", "| matrix product | float32, GFLOP/s | bf16, GFLOP/s |", "| --- | ---: | ---: |"]
    lines += [f"| {name} | {f['float32']:.0f} | {f['bfloat16']:.0f} |" for name, f in limits["gflops"].items()]
    return "\n".join([*lines, "", f"A large copy: {limits['copy_gb_per_s']:.1f} GB/s, read and written."])


def main() -> None:
    """Measure the limits and the variants; write; print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="at tiny sizes, in seconds")
    parser.add_argument(
        "--output", type=Path, help="default: benchmark_gains.json of the experiments; none with --tiny"
    )
    parser.add_argument("--rounds", type=int)
    arguments = parser.parse_args()
    work = TINY if arguments.tiny else FULL
    work = replace(work, rounds=arguments.rounds or work.rounds)
    torch.set_num_threads(threads_of("tiny") if arguments.tiny else THREADS)
    provenance(work.seed, 0.0)  # notes the commit now
    start = time.perf_counter()
    limits = roofline(work, arguments.tiny)
    what = {"what": "what each saving in the training step brings, and the machine's limits"}
    result = what | measure(VARIANTS, work) | {"roofline": limits}
    result |= provenance(work.seed, time.perf_counter() - start)
    if arguments.output or not arguments.tiny:
        path = arguments.output or RESULTS / "benchmark_gains.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written: {path}", file=sys.stderr)
    print(table(result))


if __name__ == "__main__":
    main()
