"""What the process of one peer does: it opens the peer, then measures whenever it is told. `run.py` tells it."""

import os
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.peers import PEERS, open_peer
from benchmarks.peers.this import model_config
from benchmarks.work import (
    PAD,
    Work,
    check_generated,
    check_logits,
    check_losses,
    padding,
    rate,
    sources_to_decode,
    training_batches,
    without_padding,
)
from workshop.lab.cost import training_flops
from workshop.lab.gpu_peak import peak_memory
from workshop.lab.provenance import version_of

THREADS = 2  # the most of every peer
TASK: list[Any] = []  # of this process, once it is prepared


def threads_of(work: Work) -> int:
    """At most two threads; one at tiny sizes, where two wait for each other more than they compute."""
    return 1 if work.tiny else THREADS


class PeerError(Exception):
    """What a peer raised, by its name and in its words, or that its process ended."""


def answer(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What the function returns. Raises PeerError for whatever it raises."""
    os.dup2(2, 1)  # what the peer prints goes to standard error
    try:
        return function(*arguments)
    except Exception as error:
        traceback.print_exc()
        first_line = str(error).strip().split("\n")[0]
        raise PeerError(f"{type(error).__name__}: {first_line[:400]}") from None


def prepare(name: str, kind: str, work: Work) -> dict[str, Any]:
    """Open the peer and make it ready for training ("train") or decoding; what it says of itself."""
    torch.set_num_threads(threads_of(work))
    if PEERS[name].bf16 and not (work.tiny or torch.cpu.get_capabilities().get("avx512_bf16")):
        raise RuntimeError("this processor has no instructions for bf16")
    TASK.append((Training if kind == "train" else Decoding)(open_peer(name, work.shape), work))
    return TASK[0].prepare() | {"version": version_of(PEERS[name].package)}


def measure(task: str, threads: int) -> dict[str, float]:
    """Amount and seconds, with so many threads; a peer outside PyTorch has a method of its own to take them."""
    torch.set_num_threads(threads)
    if hasattr(TASK[0].peer, "use_threads"):
        TASK[0].peer.use_threads(threads)
    return TASK[0].measure(task)


def end() -> dict[str, Any]:
    """The last words of the task."""
    return TASK[0].end() if isinstance(TASK[0], Training) else {}


class Training:
    """The training task of one peer."""

    def __init__(self, peer: Any, work: Work):
        self.peer, self.work = peer, work
        self.batches = training_batches(work)
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
        start, tokens = time.perf_counter(), 0
        for _ in range(self.work.steps):
            tokens += self._step()
        return {"amount": tokens, "seconds": time.perf_counter() - start}

    def _step(self) -> int:
        batch = self.batches[self.done % len(self.batches)]
        self.done += 1
        self.losses.append(self.peer.train_step(batch, rate(self.done, self.work.shape.d_model)))
        return batch.target_tokens

    def end(self) -> dict[str, Any]:
        """The loss at the end, and the most memory that the process ever held."""
        check_losses([*self.losses[:4], *self.losses[-4:]])
        return {"last_loss": self.losses[-1], "steps": self.done} | peak_memory("cpu")


class Decoding:
    """The decoding tasks of one peer: a batch, one sentence at a time, and beams."""

    def __init__(self, peer: Any, work: Work):
        self.peer, self.work = peer, work
        self.sources = {
            "greedy": sources_to_decode(work, work.sentences),
            "single": sources_to_decode(work, work.one_by_one),
            "beam": sources_to_decode(work, work.beam_sentences),
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
