"""This library and its peers on the same work, in rounds, in one run.

    python benchmarks/run.py            measure every peer that is installed, write the result, print it
    python benchmarks/run.py --tiny     everything at tiny sizes: does it run?

`make bench` runs it in .venv-bench, which has all peers. Each peer sits in a process of its own and only one computes
at a time. Every round runs all of them once, beginning with another one each time; a ratio is taken within a round, so
that a machine that slows down slows down both its sides. On a CPU every peer runs with one thread and with two, and the
number that is best for it counts. A peer that does other work than the rest (logits of another shape, sentences that
end early, a loss that does not fall) is refused, and the command fails. The page *Speed* shows the result; on a GPU,
experiments/gpu_record.py measures.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import worker
from benchmarks.peers import BASES, PEERS
from benchmarks.work import FULL, KINDS, TINY, Work, ratios
from benchmarks.worker import PeerError, threads_of
from workshop.lab.experiment import processes
from workshop.lab.provenance import RESULTS, write_result
from workshop.lab.provenance import provenance as recorded

PAUSE = 0.25  # seconds between two measurements, in which the threads of the last one go to sleep
BUSY = 1.5  # load average beside our own work from which the machine counts as used by others
UNITS = {"train": "target tokens/s", "greedy": "tokens/s", "single": "sentences/s", "beam": "sentences/s"}

Rates = dict[int, list[float]]  # number of threads → the rate of each round
Workers = dict[str, ProcessPoolExecutor]  # the process of each peer
Told = dict[str, dict[str, Any]]  # what every peer says of itself


def ask(process: ProcessPoolExecutor, do: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """The answer of a function of `worker.py`, called in a peer's process. Raises PeerError."""
    try:
        return process.submit(worker.answer, do, *arguments).result()
    except BrokenProcessPool as error:
        raise PeerError("the process ended without an answer") from error


def say(text: str) -> None:
    """Progress goes to standard error; the table alone to standard output."""
    print(text, file=sys.stderr, flush=True)


def load() -> float | None:
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


class Bench:
    """The peers of one run, what became of each, and the measurements."""

    def __init__(self, rounds: int, chosen: list[str] | None):
        self.rounds, self.chosen = rounds, chosen
        self.left_out: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.loads: list[dict[str, Any]] = []

    def start(self, kind: str, work: Work, names: list[str]) -> tuple[Workers, Told]:
        """Workers that are ready for the task, and what they said of themselves."""
        workers, told = {}, {}
        for name in names:
            if name in self.left_out or name in self.refused or (self.chosen and name not in self.chosen):
                continue
            workers[name] = processes(1, None)
            try:
                told[name] = ask(workers[name], worker.prepare, name, kind, work)
                say(f"  {name} is ready, {told[name]['parameters']:,} parameters")
            except PeerError as error:
                self.drop(name, error, workers)
        return workers, told

    def drop(self, name: str, error: PeerError, workers: Workers) -> None:
        """End a peer that goes no further: refused if it did other work, else left out."""
        wrong = str(error).startswith("WrongWorkError")
        (self.refused if wrong else self.left_out)[name] = str(error)
        say(f"  {name} is {'REFUSED' if wrong else 'left out'}: {error}")
        workers.pop(name).shutdown()

    def measure(self, task: str, workers: Workers, threads: tuple[int, ...]) -> dict[str, Rates]:
        """The rate of every worker in every round, with each number of threads."""
        rates: dict[str, Rates] = {name: {number: [] for number in threads} for name in workers}
        for number in range(self.rounds):
            self.loads.append({"task": task, "round": number + 1, "load": load()})
            order = list(rates)
            first = number % max(1, len(order))
            for name in order[first:] + order[:first]:
                try:
                    for count, values in rates[name].items():
                        time.sleep(PAUSE)
                        answer = ask(workers[name], worker.measure, task, count)
                        values.append(answer["amount"] / answer["seconds"])
                except PeerError as error:
                    self.drop(name, error, workers)
                    rates.pop(name)
            last = {name: [values[-1] for values in found.values()] for name, found in rates.items()}
            shown = ", ".join(f"{name} {' or '.join(f'{rate:,.4g}' for rate in ends)}" for name, ends in last.items())
            say(f"  {task}, round {number + 1} of {self.rounds}, load {self.loads[-1]['load']}: {shown}")
        return rates

    def finish(self, workers: Workers) -> Told:
        """The last words of every worker."""
        told = {}
        for name in list(workers):
            try:
                told[name] = ask(workers[name], worker.end)
                workers.pop(name).shutdown()
            except PeerError as error:
                self.drop(name, error, workers)
        return told


def summary(task: str, measured: dict[str, Rates]) -> dict[str, Any]:
    """Medians, and ratios to the base where it was measured: of each peer with the number of threads that suits it."""
    base = BASES[task]
    medians = {
        name: {count: statistics.median(values) for count, values in found.items()} for name, found in measured.items()
    }
    best = {name: max(found, key=lambda count: found[count]) for name, found in medians.items()}
    rates = {name: measured[name][count] for name, count in best.items()}
    return {
        "unit": UNITS[task],
        "base": base,
        "peers": {
            name: {
                "median": statistics.median(values),
                "threads": best[name],
                "median_by_threads": medians[name],
                "rounds": [round(value, 4) for value in values],
                "ratio": ratios(values, rates[base]) if base in rates else None,
            }
            for name, values in rates.items()
        },
    }


def run_training(bench: Bench, work: Work, names: list[str], threads: tuple[int, ...]) -> tuple[dict[str, Any], Told]:
    """Training on one kind of batches, and what every peer said of itself."""
    workers, about = bench.start("train", work, names)
    rates = bench.measure("train", workers, threads)
    ends = bench.finish(workers)
    check_alike(about)
    task = summary("train", {name: values for name, values in rates.items() if name in ends})
    for name in task["peers"]:
        task["peers"][name] |= ends[name] | {"losses": about[name]["losses"]}
    return task | {"padding": max((told["padding"] for told in about.values()), default=None)}, about


def check_alike(about: Told) -> None:
    """The same batches everywhere: as many target tokens, logits of one shape."""
    for key in ("target_tokens", "logits_shape", "padding"):
        answers = {json.dumps(told[key]) for told in about.values()}
        if len(answers) > 1:
            raise SystemExit(f"{key} differs between the peers: { {n: t[key] for n, t in about.items()} }")


def run_cpu(bench: Bench, work: Work) -> dict[str, Any]:
    """Training on both kinds of batches, then decoding in its three forms."""
    threads = tuple(range(1, threads_of(work) + 1))
    able = {task: [name for name, peer in PEERS.items() if task in peer.tasks] for task in UNITS}
    tasks, about = {}, {}
    for kind, spread in KINDS.items():
        say(f"training, batches {kind}: every peer starts and warms up")
        of_kind = replace(work, spread=spread)
        tasks[f"train, {kind}"], about = run_training(bench, of_kind, able["train"], threads)
    say("decoding: every peer starts")
    workers, decoders = bench.start("decode", work, able["greedy"])
    for task in ("greedy", "single", "beam"):
        chosen = {name: one for name, one in workers.items() if name in able[task]}
        tasks[task] = summary(task, bench.measure(task, chosen, threads))
        workers = {name: one for name, one in workers.items() if name not in bench.left_out | bench.refused}
    bench.finish(workers)
    return {"tasks": tasks, "about": decoders | about}


def provenance(seed: int, seconds: float) -> dict[str, Any]:
    """As the experiments record it, and the processor's own name, where the system tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return recorded(seed, seconds) | {"processor": names[0] if names else platform.processor()}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """The whole run in the current environment."""
    work = TINY if arguments.tiny else FULL
    work = replace(work, rounds=arguments.rounds or work.rounds)
    torch.set_num_threads(threads_of(work))
    # No library starts more threads than the others, and none asks the Hub for anything.
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": str(threads_of(work))}
    start, before = time.perf_counter(), load()
    if before is not None and before > BUSY:
        say(f"The load average is {before}: others use this machine, and the numbers will show it.")
    bench = Bench(work.rounds, arguments.peers)
    result = run_cpu(bench, work)
    what = "training and decoding beside other libraries on the same work"
    result = {"what": what, "work": json.loads(json.dumps(work, default=vars))} | result
    result |= {"notes": {name: PEERS[name].notes for name in result["about"]}}
    result |= {"left_out": bench.left_out, "refused": bench.refused, "loads": bench.loads}
    missed = [name for name in ("this", "torch") if name in bench.left_out]
    result["refused"] |= {name: bench.left_out[name] for name in missed}  # without these there is no result
    return result | provenance(FULL.seed, time.perf_counter() - start)


def main() -> None:
    """Read the options; measure, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="at tiny sizes, in seconds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--peers", nargs="+", help="only these")
    parser.add_argument("--output", type=Path, default=RESULTS / "benchmark_cpu.json")
    arguments = parser.parse_args()
    result = measure(arguments)
    if arguments.output != parser.get_default("output") or not arguments.tiny:
        say(f"written: {write_result(arguments.output.stem, result, arguments.output.parent)}")
    for name, task in result["tasks"].items():
        print(f"{name}, {task['unit']}; ratio to {task['base']}")
        for peer, found in sorted(task["peers"].items(), key=lambda item: -item[1]["median"]):
            ratio = f"{found['ratio']['median']:.2f}" if found["ratio"] else "–"
            print(f"  {peer:15} {found['median']:10,.1f}  {ratio}")
    if result["refused"]:
        sys.exit("\n".join(f"{name} was refused: {why}" for name, why in result["refused"].items()))


if __name__ == "__main__":
    main()
