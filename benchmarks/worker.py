"""A process that holds one peer, waits for commands on its standard input and answers on its standard output.

    python benchmarks/worker.py PEER train|decode [--size full|tiny|base|big] [--batches KIND] [--device cpu]

Commands and answers are lines of JSON. `run.py` commands one worker at a time, so no two compute at once.
"""

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TextIO

import torch

from benchmarks.peers import PEERS, open_peer, version_of
from benchmarks.peers.this import model_config
from benchmarks.work import (
    FULL,
    KINDS,
    PAD,
    TINY,
    Work,
    check_generated,
    check_logits,
    check_losses,
    padding,
    rate,
    sources_to_decode,
    training_batches,
    without_padding,
    work_on_gpu,
)
from workshop.lab.cost import training_flops
from workshop.lab.gpu_peak import peak_memory

THREADS = 2  # the most of every peer
SIZES = ("full", "tiny", "base", "big", "tiny-base", "tiny-big")


def threads_of(size: str) -> int:
    """At most two threads; one at tiny sizes, where two wait for each other more than they compute."""
    return 1 if size.startswith("tiny") else THREADS


def work_of(size: str, batch_tokens: int | None = None) -> Work:
    """The work of that name."""
    if size in ("full", "tiny"):
        work = FULL if size == "full" else TINY
    else:
        work = work_on_gpu(size.removeprefix("tiny-"), tiny=size.startswith("tiny-"))
    return replace(work, target_tokens=batch_tokens) if batch_tokens else work


def use_threads(peer: Any, threads: int) -> None:
    """Compute with so many threads from here on; a peer outside PyTorch has a method of its own for it."""
    torch.set_num_threads(threads)
    if hasattr(peer, "use_threads"):
        peer.use_threads(threads)


class Training:
    """The training task of one peer."""

    def __init__(self, peer: Any, work: Work, device: str = "cpu"):
        self.peer, self.work, self.device = peer, work, device
        self.batches = [batch.to(device) for batch in training_batches(work)]
        self.done, self.losses = 0, []

    def prepare(self) -> dict[str, Any]:
        """Check the shape of the logits, warm up, and refuse a peer whose loss does not fall."""
        batch = self.batches[0]
        with torch.no_grad():
            shape = tuple(self.peer.logits(batch).shape)
        check_logits(shape, batch, self.work.shape.vocabulary)
        self.peer.start_training()
        for _ in range(self.work.warm_up):
            self._step()
        check_losses(self.losses)
        target_tokens = sum(batch.target_tokens for batch in self.batches)
        sides = zip(*((batch.source, batch.target_output) for batch in self.batches), strict=True)
        lengths = [[int(n) for side in batches for n in (side != PAD).sum(dim=1)] for batches in sides]
        flops = training_flops(model_config(self.work.shape), *lengths)
        return {
            "parameters": self.peer.parameters(),
            "logits_shape": shape,
            "losses": [round(loss, 4) for loss in self.losses],
            "target_tokens": target_tokens,
            "padding": padding(self.batches),
            "flops_per_target_token": flops / target_tokens,
        }

    def measure(self, task: str) -> dict[str, float]:
        """One step to get going, then the timed ones; all peers come by the same batches."""
        self._step()
        self._wait()
        start, tokens = time.perf_counter(), 0
        for _ in range(self.work.steps):
            tokens += self._step()
        self._wait()
        return {"amount": tokens, "seconds": time.perf_counter() - start}

    def _step(self) -> int:
        batch = self.batches[self.done % len(self.batches)]
        self.done += 1
        self.losses.append(self.peer.train_step(batch, rate(self.done, self.work.shape.d_model)))
        return batch.target_tokens

    def _wait(self) -> None:
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()

    def end(self) -> dict[str, Any]:
        """The loss at the end, and the most memory that the process ever held."""
        check_losses([*self.losses[:4], *self.losses[-4:]])
        return {"last_loss": self.losses[-1], "steps": self.done} | peak_memory(self.device)


class Decoding:
    """The decoding tasks of one peer: a batch, one sentence at a time, and beams."""

    def __init__(self, peer: Any, work: Work, device: str = "cpu"):
        self.peer, self.work = peer, work
        self.sources = {
            "greedy": sources_to_decode(work, work.sentences).to(device),
            "single": sources_to_decode(work, work.one_by_one).to(device),
            "beam": sources_to_decode(work, work.beam_sentences).to(device),
        }
        self.one_by_one = without_padding(self.sources["single"])

    def prepare(self) -> dict[str, Any]:
        """Let the peer make its model ready."""
        self.peer.start_decoding()
        return {"parameters": self.peer.parameters()}

    def measure(self, task: str) -> dict[str, float]:
        """One sentence to get going, then the timed one, whose output is checked."""
        source, length = self.sources[task], self.work.decode_length
        run: Callable[[], list[list[int]]] = {
            "greedy": lambda: self.peer.greedy(source, length),
            "single": lambda: [row for one in self.one_by_one for row in self.peer.greedy(one, length)],
            "beam": lambda: self.peer.beam(source, length, self.work.beam_size),
        }[task]
        first = self.one_by_one[0]
        self.peer.beam(first, length, self.work.beam_size) if task == "beam" else self.peer.greedy(first, length)
        start = time.perf_counter()
        rows = run()
        seconds = time.perf_counter() - start
        check_generated(rows, len(source), length)
        return {"amount": len(source) * (length if task == "greedy" else 1), "seconds": seconds}

    def end(self) -> dict[str, Any]:
        """Nothing that the table needs."""
        return {}


def serve(arguments: argparse.Namespace, commands: TextIO, answer: Callable[[dict[str, Any]], None]) -> None:
    """Answer each command; after an error the worker is of no more use, and ends."""
    task: Training | Decoding | None = None
    for line in commands:
        command = json.loads(line)
        try:
            if command["do"] == "prepare":
                work = work_of(arguments.size, arguments.batch_tokens)
                if arguments.batches:
                    work = replace(work, spread=KINDS[arguments.batches])
                has_bf16 = arguments.device != "cpu" or torch.cpu.get_capabilities().get("avx512_bf16")
                if PEERS[arguments.peer].bf16 and arguments.size == "full" and not has_bf16:
                    raise RuntimeError("this processor has no instructions for bf16")
                peer = open_peer(arguments.peer, work.shape, arguments.device)
                task = (Training if arguments.task == "train" else Decoding)(peer, work, arguments.device)
                answer(task.prepare() | {"version": version_of(arguments.peer)})
            elif task is None:
                raise RuntimeError(f"{command['do']!r} before 'prepare'")
            elif command["do"] == "measure":
                use_threads(task.peer, command["threads"])
                answer(task.measure(command["task"]))
            else:
                answer(task.end())
                return
        except Exception as error:  # whatever a peer raises is the answer
            traceback.print_exc()
            message = str(error).strip().split("\n")[0][:400]
            out_of_memory = "out of memory" in str(error).lower()
            answer({"error": f"{type(error).__name__}: {message}", "out_of_memory": out_of_memory})
            return


def main() -> None:
    """Keep the answers apart from whatever the peer prints, and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("task", choices=("train", "decode"))
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--batches", choices=KINDS)
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the peer prints goes to standard error
    torch.set_num_threads(threads_of(arguments.size))

    def answer(values: dict[str, Any]) -> None:
        print(json.dumps(values), file=answers, flush=True)

    serve(arguments, sys.stdin, answer)


if __name__ == "__main__":
    main()
