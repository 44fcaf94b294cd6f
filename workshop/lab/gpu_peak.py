"""What a device could do at most in bf16, and the most memory that a process held."""

import sys
import time

import torch

# The datasheets' dense bf16 peaks, TFLOP/s.
DATASHEET = {"H200": 989.5, "H100": 989.5, "A100": 312.0, "L4": 121.0, "T4": None}


def gpu_peak(device: str, size: int) -> dict[str, float | None]:
    """The bf16 peak: measured by one big matrix product, and the datasheet's where the card is known. TFLOP/s."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    best = 0.0
    for _ in range(10):
        wait()
        start = time.perf_counter()
        for _ in range(5):
            _ = a @ b
        wait()
        best = max(best, 5 * 2 * size**3 / (time.perf_counter() - start) / 1e12)
    name = torch.cuda.get_device_name() if device.startswith("cuda") else ""
    datasheet = next((value for key, value in DATASHEET.items() if key in name), None)
    return {"measured_tflops": best, "datasheet_tflops": datasheet}


def peak_memory(device: str) -> dict[str, float]:
    """Most memory of this process so far, in GB of 10⁹ bytes; on a GPU, most memory of its tensors."""
    if device.startswith("cuda"):
        return {"peak_memory_gb": torch.cuda.max_memory_allocated() / 1e9}
    try:
        import resource
    except ImportError:  # not on this system
        return {}
    unit = 1 if sys.platform == "darwin" else 1024
    return {"peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9}
