"""Where the time and the memory of a training step go, in float32 and in bf16, on a CPU.

    python experiments/step_parts.py

The model and the batches are those of benchmarks/. Times come from torch.profiler, memory from what autograd keeps for
the backward pass and from the most that a process held, with two ways of the C library to give memory back.
"""

import argparse
import json
import os
import statistics
import time
from collections import Counter
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.peers.this import model_config
from benchmarks.work import FULL, TINY, Work, training_batches
from transformer_lib import Transformer
from transformer_lib.config import TrainingConfig
from transformer_lib.data import Batch
from transformer_lib.training import adam
from transformer_run.update import Update
from workshop.lab.experiment import processes
from workshop.lab.gpu_peak import peak_memory
from workshop.lab.provenance import provenance, write_result

STEPS = 6  # of each precision in a round, and of a process whose memory is watched
MMAP_THRESHOLD = 2**20  # bytes from which an array gets pages of its own, which go back at once
GROUPS = {
    "matrix products": ("mm", "addmm", "bmm", "baddbmm", "scaled_dot_product"),
    "copies and conversions": ("copy_", "_to_copy", "contiguous", "cat", "index_select", "index_add"),
    "dropout's random numbers": ("bernoulli",),
    "normalisation": ("layer_norm",),
    "softmax and loss": ("softmax", "logsumexp", "gather", "scatter", "clamp"),
    "Adam": ("adam",),
}


def prepared(work: Work) -> tuple[Transformer, torch.optim.Optimizer, list[Batch]]:
    """Model, optimizer and batches of the benchmark."""
    torch.manual_seed(0)
    model = Transformer(model_config(work.shape)).train()
    optimizer = adam(model, TrainingConfig())
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    return model, optimizer, [Batch(*batch) for batch in training_batches(work)]


def step(model: Transformer, optimizer: torch.optim.Optimizer, batch: Batch, precision: Any) -> None:
    """One update, as `train` makes it."""
    optimizer.zero_grad()
    (Update(model, precision).loss(batch, epsilon_ls=0.1) / batch.target_tokens).backward()
    optimizer.step()


def times(work: Work, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of a step by kind of operation: medians over rounds in which the precisions take turns."""
    model, optimizer, batches = prepared(work)
    spent_by_precision: dict[str, list[Counter[str]]] = {"fp32": [], "bf16": []}
    for number in range(rounds + 1):  # the first warms up
        for precision, rows in spent_by_precision.items():
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                for i in range(STEPS):
                    step(model, optimizer, batches[i % len(batches)], precision)
            spent: Counter[str] = Counter()
            for event in profile.key_averages():
                spent[_group(event.key)] += event.self_cpu_time_total / 1000 / STEPS
            if number:
                rows.append(spent)
    return {
        precision: {
            name: round(statistics.median(row[name] for row in rows), 2) for name in [*GROUPS, "everything else"]
        }
        for precision, rows in spent_by_precision.items()
    }


def _group(operation: str) -> str:
    name = operation.removeprefix("aten::").lower()
    return next((group for group, parts in GROUPS.items() if any(part in name for part in parts)), "everything else")


def kept_for_backward(work: Work, precision: str) -> dict[str, float]:
    """Megabytes that autograd keeps of one batch, by what they are; weights do not count."""
    model, _, batches = prepared(work)
    shape, kept = work.shape, {}
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor.size(-1) if tensor.dim() else 1)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        Update(model, precision).loss(batches[0], epsilon_ls=0.1)  # pyright: ignore[reportArgumentType]
    names = {
        shape.vocabulary: "log-probabilities",
        shape.d_ff: "inside the feed-forward networks",
        shape.d_model // shape.num_heads: "queries, keys and values",
        shape.d_model: "states and dropout's masks",
    }
    bytes_by_name: Counter[str] = Counter()
    for size, width in kept.values():
        bytes_by_name[names.get(width, "everything else")] += size
    return {name: round(size / 1e6, 1) for name, size in bytes_by_name.most_common()}


def watched(work: Work, precision: str) -> dict[str, float]:
    """Megabytes that this process held at most: after the imports, with the model, and after some steps."""
    noted = {"after the imports": _peak_mb()}
    model, optimizer, batches = prepared(work)
    noted["with model and batches"] = _peak_mb()
    for i in range(STEPS):
        step(model, optimizer, batches[i % len(batches)], precision)
    return noted | {"training": _peak_mb()}


def _peak_mb() -> float:
    return round(1000 * peak_memory("cpu")["peak_memory_gb"])


def in_a_process(work: Work, precision: str, setting: dict[str, str]) -> dict[str, float]:
    """What `watched` gives in a process of its own, with this setting of the C library."""
    with patch.dict(os.environ, setting), processes() as pool:
        return pool.submit(watched, work, precision).result()


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiny", action="store_true", help="a small size, and nothing is recorded")
    args = parser.parse_args()
    work = TINY if args.tiny else FULL
    started = time.monotonic()
    own_pages = {"MALLOC_MMAP_THRESHOLD_": str(MMAP_THRESHOLD)}
    result = {
        "what": "one training step of benchmarks/: milliseconds by kind of operation, megabytes by what they hold",
        "milliseconds": times(work, args.rounds),
        "kept_for_backward_mb": {precision: kept_for_backward(work, precision) for precision in ("fp32", "bf16")},
        "most_held_mb": {
            precision: {
                "as it is": in_a_process(work, precision, {}),
                "arrays on pages of their own": in_a_process(work, precision, own_pages),
            }
            for precision in ("fp32", "bf16")
        },
        **provenance(0, time.monotonic() - started),
    }
    print(json.dumps(result, indent=1) if args.tiny else f"written to {write_result('step_parts', result).name}")


if __name__ == "__main__":
    main()
