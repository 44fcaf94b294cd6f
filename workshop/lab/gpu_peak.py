"""What a device could do at most, each found by trying, and the most memory that a process held."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.benchmark import Timer

# The datasheets' dense bf16 peaks, TFLOP/s.
DATASHEET = {"H200": 989.5, "H100": 989.5, "A100": 312.0, "L4": 121.0, "T4": None}


def gpu_peak(device: str, size: int) -> dict[str, float | None]:
    """The bf16 peak: measured by one big matrix product, and the datasheet's where the card is known. TFLOP/s."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else ""
    datasheet = next((value for key, value in DATASHEET.items() if key in name), None)
    measured = product_gflops(size, size, size, torch.bfloat16, device) / 1000
    return {"measured_tflops": measured, "datasheet_tflops": datasheet}


def product_gflops(m: int, k: int, n: int, dtype: torch.dtype, device: str = "cpu") -> float:
    """GFLOP/s of a matrix product."""
    a, b = (torch.randn(*shape, device=device).to(dtype) for shape in ((m, k), (k, n)))
    return 2 * m * k * n / _least_seconds(lambda: a @ b) / 1e9


def copy_gb_per_s(numbers: int, device: str = "cpu") -> float:
    """GB/s of a copy of so many float32 numbers, read and written."""
    source = torch.randn(numbers, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _least_seconds(lambda: target.copy_(source)) / 1e9


def _least_seconds(run: Callable[[], object]) -> float:
    timer = Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads())  # it waits for the device
    return min(timer.timeit(1).mean for _ in range(10))


def peak_memory(device: str) -> dict[str, float]:
    """Most memory of this process so far, in GB of 10⁹ bytes; on a GPU, most memory of its tensors."""
    if device.startswith("cuda"):
        return {"peak_memory_gb": torch.cuda.max_memory_allocated() / 1e9}
    status = Path("/proc/self/status")  # not getrusage, whose maximum a child takes over from its parent
    if not status.exists():  # no Linux
        return {}
    fields = dict(line.split(":") for line in status.read_text("utf-8").splitlines())
    return {"peak_memory_gb": int(fields["VmHWM"].split()[0]) * 1024 / 1e9}
