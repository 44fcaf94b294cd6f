"""Training, checkpoints and decoding for a long time: does memory grow, does anything drift?

    python experiments/soak.py --minutes 60

One model learns number words again and again; every minute the process's memory, its speed and the loss are noted.
"""

import argparse
import ctypes
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, beam_search, greedy_decode
from transformer_lib.data import in_background
from transformer_lib.run.checkpoints import load_checkpoint, save_checkpoint
from transformer_lib.training import adam, epochs, train
from workshop.lab.provenance import provenance, write_result
from workshop.lab.small_model import SIZES, number_words

CHECKPOINT_EVERY, DECODE_EVERY = 200, 100


def resident_mb() -> float:
    """Memory of this process that is in RAM now, in megabytes."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class MallocInfo(ctypes.Structure):
    """What the C library says of its heap (mallinfo2), in bytes."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def in_use_mb() -> float:
    """Memory that the program has asked for and not given back, in megabytes: a leak shows here, a hole does not."""
    mallinfo2 = ctypes.CDLL("libc.so.6").mallinfo2
    mallinfo2.restype = MallocInfo
    info = mallinfo2()
    return (info.uordblks + info.hblkhd) / 1e6


def slope_per_hour(minutes: list[float], values: list[float]) -> float:
    """By least squares."""
    middle, mean = statistics.fmean(minutes), statistics.fmean(values)
    above = sum((m - middle) * (v - mean) for m, v in zip(minutes, values, strict=True))
    return 60 * above / sum((m - middle) ** 2 for m in minutes)


def main() -> None:
    """Run, note, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    words = number_words()
    pairs, tokenizer = words.learned, words.tokenizer
    ids = words.ids(pairs)
    settings = TrainingConfig(num_steps=10**9, batch_tokens=1500, warmup_steps=600)
    model = Transformer(TransformerConfig(vocabulary_size=len(tokenizer), **SIZES))
    optimizer = adam(model, settings)
    noted: list[dict[str, float]] = []
    started = last_note = time.monotonic()
    last_cpu = time.process_time()
    losses, tokens = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for record in train(model, optimizer, in_background(epochs(ids, model.config, settings)), settings):
            losses.append(record.loss_nats_per_token)
            tokens += record.target_tokens
            if record.step_num % DECODE_EVERY == 0:
                source = torch.tensor([[*tokenizer.encode(pairs[record.step_num % 1000][0]), 2]])
                greedy_decode(model, source)
                beam_search(model, source)
            if record.step_num % CHECKPOINT_EVERY == 0:
                path = Path(folder, "step")
                save_checkpoint(path, model, optimizer, record.step_num)
                load_checkpoint(path, model, optimizer)
            now = time.monotonic()
            if now - last_note >= 60:
                noted.append(
                    {
                        "minute": round((now - started) / 60, 2),
                        "resident_mb": round(resident_mb(), 1),
                        "in_use_mb": round(in_use_mb(), 1),
                        "python_blocks": sys.getallocatedblocks(),
                        # Of this process's own time, so that other work on the machine does not count.
                        "tokens_per_cpu_second": round(tokens / (time.process_time() - last_cpu)),
                        "loss_nats_per_token": round(statistics.fmean(losses), 4),
                        "step_num": record.step_num,
                    }
                )
                print(noted[-1], flush=True)
                losses, tokens, last_note, last_cpu = [], 0, now, time.process_time()
            if now - started >= 60 * args.minutes:
                break
    settled = noted[len(noted) // 3 :]  # after the first third
    minutes = [note["minute"] for note in settled]
    result = {
        "what": "one process that trains, writes and reads checkpoints and decodes, noted every minute",
        "model": SIZES,
        "slopes_per_hour_after_the_first_third": {
            name: round(slope_per_hour(minutes, [note[name] for note in settled]), 4)
            for name in ("resident_mb", "in_use_mb", "python_blocks", "tokens_per_cpu_second", "loss_nats_per_token")
        },
        "notes": noted,
        **provenance(0, time.monotonic() - started),
    }
    print(f"written to {write_result('soak', result).name}: {result['slopes_per_hour_after_the_first_third']}")


if __name__ == "__main__":
    main()
