"""This library and its peers on the same work, in rounds, in one run.

    python benchmarks/run.py            measure every peer that is installed, write the result, print it
    python benchmarks/run.py --table    print the table of the recorded result
    python benchmarks/run.py --gpu      training on a GPU
    python benchmarks/run.py --tiny     everything at tiny sizes: does it run?

`make bench` runs it in .venv-bench, which has all peers. Each peer sits in a process of its own and only one computes
at a time. Every round runs all of them once, beginning with another one each time; a ratio is taken within a round, so
that a machine that slows down slows down both its sides. On a CPU every peer runs with one thread and with two, and the
number that is best for it counts. A peer that does other work than the rest (logits of another shape, sentences that
end early, a loss that does not fall) is refused, and the command fails.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "experiments" / "results"  # benchmark_cpu.json, benchmark_gpu.json
PAUSE = 0.25  # seconds between two measurements, in which the threads of the last one go to sleep
BUSY = 1.5  # load average beside our own work from which the machine counts as used by others


Rates = dict[int, list[float]]  # number of threads → the rate of each round


class PeerError(Exception):
    """A worker answered with an error, or not at all."""

    out_of_memory = False


class Worker:
    """The far end of `worker.py`."""

    def __init__(self, peer: str, task: str, options: list[str]):
        self.peer = peer
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  # lives as long as the process
        command = [sys.executable, str(Path(__file__).with_name("worker.py")), peer, task, *options]
        threads = 1 if any(option.startswith("tiny") for option in options) else 2
        # No library starts more threads than the others, and none asks the Hub for anything.
        quiet = {"PYTHONPATH": str(ROOT)} | {
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "OMP_NUM_THREADS": str(threads),
        }
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=ROOT,
            env=os.environ | quiet,
        )

    def ask(self, do: str, **about: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"do": do} | about) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.log.seek(0)
            last = self.log.read().strip().splitlines()[-1:]
            raise PeerError(f"the process ended without an answer ({self.process.poll()}): {' '.join(last)}")
        answer = json.loads(line)
        if "error" in answer:
            error = PeerError(answer["error"])
            error.out_of_memory = answer.get("out_of_memory", False)
            raise error
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def say(text: str) -> None:
    """Progress goes to standard error; the table alone to standard output."""
    print(text, file=sys.stderr, flush=True)


def load() -> float | None:
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


class Bench:
    """The peers of one run, what became of each, and the measurements."""

    def __init__(self, options: list[str], rounds: int, chosen: list[str] | None):
        self.options, self.rounds, self.chosen = options, rounds, chosen
        self.left_out: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.loads: list[dict[str, Any]] = []

    def start(self, kind: str, names: list[str]) -> tuple[dict[str, Worker], dict[str, dict[str, Any]]]:
        """Workers that are ready for the task, and what they said of themselves."""
        workers, told = {}, {}
        for name in names:
            if name in self.left_out or name in self.refused or (self.chosen and name not in self.chosen):
                continue
            worker = Worker(name, kind, self.options)
            try:
                told[name] = worker.ask("prepare")
                workers[name] = worker
                say(f"  {name} is ready, {told[name]['parameters']:,} parameters")
            except PeerError as error:
                worker.close()
                self.drop(name, error)
        return workers, told

    def drop(self, name: str, error: PeerError) -> None:
        """Note a peer that goes no further: refused if it did other work, else left out."""
        wrong = str(error).startswith("WrongWorkError")
        (self.refused if wrong else self.left_out)[name] = str(error)
        say(f"  {name} is {'REFUSED' if wrong else 'left out'}: {error}")
        if error.out_of_memory:
            raise error

    def measure(self, task: str, workers: dict[str, Worker], threads: tuple[int, ...]) -> dict[str, Rates]:
        """The rate of every worker in every round, with each number of threads."""
        rates: dict[str, Rates] = {name: {number: [] for number in threads} for name in workers}
        for number in range(self.rounds):
            self.loads.append({"task": task, "round": number + 1, "load": load()})
            order = list(workers)
            first = number % max(1, len(order))
            for name in order[first:] + order[:first]:
                try:
                    for count, values in rates[name].items():
                        time.sleep(PAUSE)
                        answer = workers[name].ask("measure", task=task, threads=count)
                        values.append(answer["amount"] / answer["seconds"])
                except PeerError as error:
                    self.drop(name, error)
                    workers.pop(name).close()
                    rates.pop(name)
            last = {name: [values[-1] for values in found.values()] for name, found in rates.items()}
            shown = ", ".join(f"{name} {' or '.join(f'{rate:,.4g}' for rate in ends)}" for name, ends in last.items())
            say(f"  {task}, round {number + 1} of {self.rounds}, load {self.loads[-1]['load']}: {shown}")
        return rates

    def finish(self, workers: dict[str, Worker]) -> dict[str, dict[str, Any]]:
        """The last words of every worker."""
        told = {}
        for name, worker in list(workers.items()):
            try:
                told[name] = worker.ask("end")
            except PeerError as error:
                self.drop(name, error)
            worker.close()
        return told


def summary(task: str, measured: dict[str, Rates]) -> dict[str, Any]:
    """Medians, and ratios to the base where it was measured: of each peer with the number of threads that suits it."""
    from benchmarks.peers import BASES
    from benchmarks.work import ratios

    base = BASES[task]
    medians = {
        name: {count: statistics.median(values) for count, values in found.items()} for name, found in measured.items()
    }
    best = {name: max(found, key=lambda count: found[count]) for name, found in medians.items()}
    rates = {name: measured[name][count] for name, count in best.items()}
    return {
        "unit": {"train": "target tokens/s", "greedy": "tokens/s"}.get(task, "sentences/s"),
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


def run_cpu(bench: Bench) -> dict[str, Any]:
    """Training on both kinds of batches, then decoding in its three forms."""
    from benchmarks.peers import PEERS
    from benchmarks.work import KINDS

    threads = (1,) if "tiny" in bench.options else (1, 2)
    sizes, tasks, about = list(bench.options), {}, {}
    for kind in KINDS:
        bench.options = [*sizes, "--batches", kind]
        tasks[f"train, {kind}"], about = run_training(bench, threads, kind)
    bench.options = sizes
    say("decoding: every peer starts")
    workers, decoders = bench.start("decode", [name for name, peer in PEERS.items() if "greedy" in peer.tasks])
    for task in ("greedy", "single", "beam"):
        able = {name: worker for name, worker in workers.items() if task in PEERS[name].tasks}
        tasks[task] = summary(task, bench.measure(task, able, threads))
        workers = {name: worker for name, worker in workers.items() if worker.process.poll() is None}
    bench.finish(workers)
    return {"tasks": tasks, "about": decoders | about}


def run_training(bench: Bench, threads: tuple[int, ...], kind: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Training on one kind of batches, and what every peer said of itself."""
    from benchmarks.peers import PEERS

    say(f"training, batches {kind}: every peer starts and warms up")
    workers, about = bench.start("train", [name for name, peer in PEERS.items() if "train" in peer.tasks])
    rates = bench.measure("train", workers, threads)
    ends = bench.finish(workers)
    check_alike(about)
    task = summary("train", {name: values for name, values in rates.items() if name in ends})
    for name in task["peers"]:
        task["peers"][name] |= ends[name] | {"losses": about[name]["losses"]}
    shares = {told["padding"] for told in about.values()}
    return task | {"padding": max(shares, default=None)}, about


def check_alike(about: dict[str, dict[str, Any]]) -> None:
    """The same batches everywhere: as many target tokens, logits of one shape."""
    for key in ("target_tokens", "logits_shape", "padding"):
        answers = {json.dumps(told[key]) for told in about.values()}
        if len(answers) > 1:
            raise SystemExit(f"{key} differs between the peers: { {n: t[key] for n, t in about.items()} }")


def run_gpu(arguments: argparse.Namespace) -> dict[str, Any]:
    """Training at the base and big shapes; where memory is short, again with half the tokens in a batch."""
    import torch

    from benchmarks.peers import PEERS
    from benchmarks.work import GPU, TINY
    from benchmarks.worker import threads_of
    from workshop.lab.gpu_peak import gpu_peak

    names = [name for name, peer in PEERS.items() if peer.bf16]
    cuda = arguments.device.startswith("cuda")
    peak = gpu_peak(arguments.device, 8192 if cuda and not arguments.tiny else 256)
    shapes = {}
    bench = Bench([], arguments.rounds or (2 if arguments.tiny else GPU.rounds), arguments.peers)
    for shape in ("base", "big"):
        tokens = arguments.batch_tokens or (TINY if arguments.tiny else GPU).target_tokens
        while True:
            bench.options = ["--size", ("tiny-" if arguments.tiny else "") + shape, "--device", arguments.device]
            bench.options += ["--batch-tokens", str(tokens)]
            say(f"{shape}: batches of {tokens:,} target tokens")
            workers: dict[str, Worker] = {}
            try:
                # One at a time on the card: each needs the memory for itself.
                rates, about, ends = {}, {}, {}
                for name in names:
                    workers, told = bench.start("train", [name])
                    about |= told
                    threads = threads_of(bench.options[1])
                    found = bench.measure("train", workers, (threads,))
                    rates |= {peer: values[threads] for peer, values in found.items()}
                    ends |= bench.finish(workers)
                break
            except PeerError as error:
                for worker in workers.values():
                    worker.close()
                bench.left_out = {name: why for name, why in bench.left_out.items() if why != str(error)}
                tokens //= 2
                if tokens < 500:
                    raise SystemExit(f"{shape}: not even 500 tokens fit into the card's memory") from error
                say(f"  the memory is too small: again with batches of {tokens:,}")
        check_alike(about)
        shapes[shape] = gpu_summary(rates, about, ends, peak) | {"batch_target_tokens": tokens}
    name = torch.cuda.get_device_name() if cuda else "CPU, a dry run"
    return {"peak": peak, "device_name": name, "shapes": shapes, "left_out": bench.left_out} | {
        "refused": bench.refused,
        "loads": bench.loads,
        "notes": {name: PEERS[name].notes for name in names},
    }


def gpu_summary(
    rates: dict[str, list[float]], about: dict[str, Any], ends: dict[str, Any], peak: dict[str, float | None]
) -> dict[str, Any]:
    """Tokens per second and what fraction of the peak that is, for each peer."""
    from benchmarks.work import ratios

    base, peers = rates.get("torch-bf16"), {}
    for name, end in ends.items():
        median = statistics.median(rates[name])
        flops = median * about[name]["flops_per_target_token"]
        peers[name] = {
            "median": median,
            "rounds": rates[name],
            "ratio": ratios(rates[name], base) if base else None,
            "tflops": flops / 1e12,
            "fraction_of_measured_peak": flops / 1e12 / (peak["measured_tflops"] or 1),
            "fraction_of_datasheet_peak": flops / 1e12 / peak["datasheet_tflops"] if peak["datasheet_tflops"] else None,
            "version": about[name]["version"],
            "parameters": about[name]["parameters"],
        } | end
    return {"unit": "target tokens/s", "peers": peers}


def provenance(seed: int, seconds: float) -> dict[str, Any]:
    """As the experiments record it, and the processor."""
    from workshop.lab.provenance import provenance as recorded

    return recorded(seed, seconds) | {"processor": processor()}


def processor() -> str:
    """The processor's own name, where the system tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def measure(arguments: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """The whole run in the current environment, and whether every peer did the work."""
    import torch

    from benchmarks.peers import PEERS
    from benchmarks.work import FULL, TINY
    from benchmarks.worker import threads_of

    torch.set_num_threads(threads_of("tiny" if arguments.tiny else "full"))
    provenance(0, 0.0)  # notes the commit now; the tree may move on
    start, before = time.perf_counter(), load()
    if before is not None and before > BUSY:
        say(f"The load average is {before}: others use this machine, and the numbers will show it.")
    if arguments.gpu:
        result = run_gpu(arguments)
        work = {"tiny": arguments.tiny}
    else:
        sizes = TINY if arguments.tiny else FULL
        sizes = replace(sizes, rounds=arguments.rounds or sizes.rounds)
        options = ["--size", "tiny" if arguments.tiny else "full"]
        bench = Bench(options, sizes.rounds, arguments.peers)
        result = run_cpu(bench)
        result |= {"notes": {name: PEERS[name].notes for name in result["about"]}}
        result |= {"left_out": bench.left_out, "refused": bench.refused, "loads": bench.loads}
        work = json.loads(json.dumps(sizes, default=vars))
    what = "training and decoding beside other libraries on the same work"
    result = {"what": what, "work": work} | result | provenance(FULL.seed, time.perf_counter() - start)
    missed = [name for name in ("this", "torch") if name in result["left_out"]]
    result["refused"] |= {name: result["left_out"][name] for name in missed}  # without these there is no result
    return result, not result["refused"]


def main() -> None:
    """Read the options; measure, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="train at the base and big shapes on a GPU")
    parser.add_argument("--device", default="cuda", help="of --gpu; cpu with --tiny is a dry run")
    parser.add_argument("--batch-tokens", type=int, help="target tokens in a batch, of --gpu")
    parser.add_argument("--tiny", action="store_true", help="at tiny sizes, in seconds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--peers", nargs="+", help="only these")
    parser.add_argument("--output", type=Path, help="default: benchmark_cpu.json or _gpu.json in experiments/results")
    parser.add_argument("--table", action="store_true", help="print the table of a recorded result, measure nothing")
    arguments = parser.parse_args()
    path = arguments.output or RESULTS / ("benchmark_gpu.json" if arguments.gpu else "benchmark_cpu.json")
    if arguments.table:
        from benchmarks.table import table

        if not path.exists():
            sys.exit(f"{path} does not exist: run `make bench` first.")
        print(table(json.loads(path.read_text("utf-8"))))
        return
    result, right = measure(arguments)
    if arguments.output or not arguments.tiny:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        say(f"written: {path}")
    from benchmarks.table import table

    print(table(result))
    if not right:
        sys.exit("\n".join(f"{name} was refused: {why}" for name, why in result["refused"].items()))


if __name__ == "__main__":
    main()
