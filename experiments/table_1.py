"""Table 1 measured: time and peak memory of four kinds of layer against the length n, on one CPU thread.

    python experiments/table_1.py

Self-attention (written out and in one kernel), a recurrent layer (a GRU), a convolution, and attention restricted to a
neighbourhood; the width d is fixed. A chapter shows the functions below, and reads the result.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from transformer_lib import scaled_dot_product_attention

D, K, R = 128, 3, 33  # the width, the kernel, the neighbourhood; odd, so that both have a middle
LENGTHS = [2**i for i in range(5, 13)]  # 32 to 4096
LONG_END = 4  # so many of the longest lengths give the exponent

Layer = Callable[[Tensor], Tensor]


def windowed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    r: int,
) -> Tensor:
    """Each query looks at the r keys around it, r odd.

    query and key (n, d_k), value (n, d_v) -> (n, d_v).
    """
    reach = r // 2

    def around(states: Tensor) -> Tensor:
        padded = F.pad(states, (0, 0, reach, reach))  # (n + r - 1, d)
        return padded.unfold(0, r, 1).transpose(1, 2)  # (n, r, d), a view

    exists = around(torch.ones_like(key[:, :1]))[..., 0] > 0  # (n, r)
    output, _ = scaled_dot_product_attention(
        query[:, None], around(key), around(value), exists[:, None]
    )  # (n, 1 query, d_v)
    return output[:, 0]


def make_layers(d: int, k: int, r: int) -> dict[str, Layer]:
    """The layer types of Table 1: functions of x (n, d) to (n, d)."""
    recurrent = nn.GRU(d, d)
    convolution = nn.Conv1d(d, d, k, padding="same")

    def fused(x: Tensor) -> Tensor:
        head = x[None, None]  # (1, 1, n, d)
        return F.scaled_dot_product_attention(head, head, head)[0, 0]

    return {
        "self-attention": lambda x: scaled_dot_product_attention(x, x, x)[0],
        "self-attention, fused": fused,
        "recurrent": lambda x: recurrent(x)[0],
        "convolutional": lambda x: convolution(x.mT[None])[0].mT,
        "restricted": lambda x: windowed_attention(x, x, x, r),
    }


def multiplications(layer: Layer, n: int, d: int) -> int:
    """Pairs of numbers that its matrix products multiply; 0: a fused kernel."""
    with FlopCounterMode(display=False) as counter:
        layer(torch.randn(n, d))
    return counter.get_total_flops() // 2  # it counts the additions, too


def sequential_operations(result: Tensor) -> int:
    """Operations on the longest path from the inputs to this result."""
    length: dict[Any, int] = {}
    stack: list[Any] = [result.grad_fn]
    while stack:
        before = [node for node, _ in stack[-1].next_functions if node]
        missing = [node for node in before if node not in length]
        if missing:
            stack += missing
        else:
            node = stack.pop()
            length[node] = 1 + max((length[b] for b in before), default=0)
    return length[result.grad_fn]


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float:
    """p if the values grow as n to the power of p: the slope in logarithms."""
    x, y = ([math.log(v) for v in side] for side in (lengths, values))
    return statistics.linear_regression(x, y).slope


def median_seconds(function: Callable[[], Any], repeats: int) -> float:
    """Median processor time of a call on this thread, after a warm-up."""
    function()
    seconds = []
    for _ in range(repeats):
        # Processor time: what other programs take meanwhile is not in it.
        started = time.thread_time()
        function()
        seconds.append(time.thread_time() - started)
    return statistics.median(seconds)


def peak_megabytes(function: Callable[[], Any]) -> float:
    """The most memory that PyTorch's tensors took at one time during a call, without what was there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        function()
    recorded: Any = profiler.profiler  # its memory events have no public name
    events = recorded.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    held = peak = 0
    for _, nbytes in changes:
        held += nbytes
        peak = max(peak, held)
    return peak / 1e6


def measure(layer: Layer, lengths: Sequence[int], repeats: int) -> dict[str, Any]:
    """Time, memory and counts of one layer at each length; the exponents of time and memory at the long end."""
    seconds, megabytes, products = [], [], []
    for n in lengths:
        x = torch.randn(n, D)
        with torch.no_grad():
            seconds.append(median_seconds(lambda x=x: layer(x), repeats))
            megabytes.append(peak_megabytes(lambda x=x: layer(x)))
        products.append(multiplications(layer, n, D))
    return {
        "milliseconds": [round(1000 * s, 4) for s in seconds],
        "peak_megabytes": [round(m, 4) for m in megabytes],
        "multiplications": products,
        "exponents": {
            name: round(exponent(lengths[-LONG_END:], values[-LONG_END:]), 3)
            for name, values in (("time", seconds), ("memory", megabytes), ("multiplications", products))
            if all(values)  # the counter sees no products inside a fused kernel
        },
    }


def measured(repeats: int) -> dict[str, Any]:
    """The record of every layer; each time is the median of so many calls."""
    torch.manual_seed(0)
    layers = {}
    for name, layer in make_layers(D, K, R).items():
        layers[name] = measure(layer, LENGTHS, repeats)
        print(f"{name}: {layers[name]['exponents']}", flush=True)
    return {
        "what": "time and peak memory of one forward pass of each layer type of Table 1 against the length n",
        "data": "random vectors, one sequence, single precision, one thread; median processor time of some calls",
        "sizes": {"d": D, "k": K, "r": R, "lengths": LENGTHS, "lengths_for_the_exponent": LENGTHS[-LONG_END:]},
        "repeats": repeats,
        "layers": layers,
    }


if __name__ == "__main__":
    from workshop.lab.experiment import record  # here, as a page imports the functions above without the workshop

    record("table_1", __doc__, measured, repeats=9)
