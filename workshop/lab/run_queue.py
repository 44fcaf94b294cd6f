"""Work through the list of long runs in the background, each in a clone of its own.

    python -m workshop.lab.run_queue start --cores 2    begin, or go on after a kill
    python -m workshop.lab.run_queue status             what is done, what runs, what is left
    python -m workshop.lab.run_queue land               copy the results of finished runs into this repository
    python -m workshop.lab.run_queue stop

The list is experiments/queue.toml. A run is begun at the commit at which the repository then stands, in a clone, and
keeps to that commit until it is done: work in the repository does not change what runs. A run that was cut is started
again with its command, which goes on from its last checkpoint. A run that fails is left for the next `start`.
"""

import argparse
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from typing import IO, Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "experiments" / "queue.toml"
FOLDER = Path.home() / ".cache" / "transformer_lib" / "queue"
RESULTS = ("experiments/results", "transformer_lib/pretrained")  # what a run writes into its clone
# Memory that a step gives back is kept for the next one, in large pages: the same numbers, up to 1.6 times as fast.
MALLOC = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_MMAP_THRESHOLD_": "8000000000",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": "200000000",
}


class Entry(NamedTuple):
    """A run of the list: its name, its command, and the folder where the queue keeps it."""

    name: str
    command: str
    folder: Path

    @property
    def clone(self) -> Path:
        """The copy of the repository in which it runs."""
        return self.folder / "clone"

    @property
    def state(self) -> dict[str, Any]:
        """The recorded state of the run: `state` is "waiting", "running", "done" or "failed"."""
        path = self.folder / "state.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else {"state": "waiting", "seconds": 0.0}

    def note(self, **about: Any) -> None:
        """Record more about the run. A kill leaves the old record or the new one."""
        part = self.folder / "state.json.part"
        part.write_text(json.dumps(self.state | about), encoding="utf-8")
        part.replace(self.folder / "state.json")


def entries(folder: Path) -> list[Entry]:
    """The list, in order.

    Raises:
        ValueError: two runs of one name, or a name that no folder can have.
    """
    listed = tomllib.loads(LIST.read_text("utf-8"))["run"]
    names = [run["name"] for run in listed]
    for name in names:
        if names.count(name) > 1 or not re.fullmatch(r"[\w.=-]+", name):
            raise ValueError(f"{LIST.name}: {name!r} must be a name of its own, of letters, digits and . _ = -")
    return [Entry(run["name"], run["command"], folder / run["name"]) for run in listed]


def perform(entry: Entry) -> None:
    """Run one entry to its end, in its clone, which is made at the first start."""
    entry.folder.mkdir(parents=True, exist_ok=True)
    if not entry.clone.exists():
        part = entry.folder / "clone.part"
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(part)], check=True)
        shared = entry.folder.parent / "checkpoints"  # of all runs, as a result may gather several
        shared.mkdir(exist_ok=True)
        (part / "checkpoints").symlink_to(shared.resolve(), target_is_directory=True)
        part.rename(entry.clone)
    # A result that an earlier end of the run wrote would make the commit of the next record "dirty".
    subprocess.run(["git", "checkout", "--quiet", "--", "."], cwd=entry.clone, check=True)
    before, started = entry.state["seconds"], time.monotonic()
    environment = os.environ | MALLOC | {"PYTHONPATH": str(entry.clone), "OMP_NUM_THREADS": "1"}
    with (entry.folder / "log.txt").open("ab") as log:
        command = [sys.executable, *shlex.split(entry.command)]
        process = subprocess.Popen(command, cwd=entry.clone, env=environment, stdout=log, stderr=log)
        entry.note(state="running", pid=process.pid)
        while process.poll() is None:
            time.sleep(1.0)
            entry.note(seconds=round(before + time.monotonic() - started))
    status = process.returncode
    entry.note(state="done" if status == 0 else "failed", exit_status=status)


def work(folder: Path, cores: int) -> None:
    """Run the entries, so many at once, until none is left. The list may grow meanwhile."""
    begun: set[str] = set()
    lock = threading.Lock()

    def next_entry() -> Entry | None:
        with lock:
            for entry in entries(folder):
                if entry.name not in begun and entry.state["state"] != "done":
                    begun.add(entry.name)
                    return entry
        return None

    def slot() -> None:
        while (entry := next_entry()) is not None:
            try:
                perform(entry)
            except (OSError, subprocess.CalledProcessError) as error:  # its clone: the other runs go on
                print(f"{entry.name}: {error}", file=sys.stderr, flush=True)
                entry.note(state="failed")

    slots = [threading.Thread(target=slot) for _ in range(cores)]
    for thread in slots:
        thread.start()
    for thread in slots:
        thread.join()


def locked(opened: IO[str]) -> bool:
    """Take the lock of the queue; False if a worker holds it, as it does until it ends."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def worker(folder: Path) -> int | None:
    """The process that works on the queue; None if there is none."""
    path = folder / "worker"
    if not path.exists():
        return None
    with path.open(encoding="utf-8") as opened:
        return None if locked(opened) else int(opened.read())


def start(folder: Path, cores: int) -> None:
    """Work on the queue in the background, in a session of its own."""
    if cores < 1:
        raise ValueError(f"cores = {cores}; give at least 1")
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    if changed.stdout:
        print("the repository has changes that are not committed: runs begun now do not see them", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(Path(__file__).resolve()), "--folder", str(folder), "work", "--cores", str(cores)]
    with (folder / "worker").open("a+", encoding="utf-8") as lock, (folder / "log.txt").open("ab") as log:
        if not locked(lock):
            lock.seek(0)
            pid = lock.read()
            raise ValueError(f"process {pid} works on the queue already; it reads the list anew after each run")
        quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        process = subprocess.Popen(command, start_new_session=True, pass_fds=[lock.fileno()], **quiet)
        lock.truncate(0)
        lock.write(str(process.pid))
    print(f"process {process.pid} works on the queue, {cores} runs at once, in {folder}")


def stop(folder: Path) -> None:
    """End the worker and what it runs; `start` goes on from the last checkpoints."""
    pid = worker(folder)
    if pid is None:
        print("nothing runs")
        return
    os.killpg(pid, signal.SIGTERM)
    print("stopped")


def status(folder: Path) -> None:
    """Print each run with its state, its minutes and the last that it said."""
    pid = worker(folder)
    for entry in entries(folder):
        about = entry.state
        running = about["state"] == "running"
        state = "cut" if running and pid is None else about["state"]
        print(f"{state:8}{about['seconds'] / 60:6.0f} min  {entry.name}: {entry.command}")
        if running:
            print(f"{'':19}{last_words(entry.folder / 'log.txt')}")
    print(f"process {pid} works on the queue" if pid else "nothing runs; `start` goes on")


def last_words(log: Path) -> str:
    """The last line of a log, or the last state of a progress bar in it."""
    words = re.split(r"[\r\n]+", log.read_bytes()[-2000:].decode("utf-8", errors="replace").strip())
    return words[-1]


def land(folder: Path) -> None:
    """Copy the results and translators of finished runs, the oldest first, into this repository."""
    # A clone that is gone has been landed before.
    finished = [entry for entry in entries(folder) if entry.state["state"] == "done" and entry.clone.exists()]
    for entry in sorted(finished, key=lambda entry: (entry.folder / "state.json").stat().st_mtime):
        listed = ["git", "ls-files", "--modified", "--others", "--exclude-standard", "-z", *RESULTS]
        written = subprocess.run(listed, cwd=entry.clone, capture_output=True, text=True, check=True).stdout
        for name in filter(None, written.split("\0")):
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(entry.clone / name, ROOT / name)
            print(f"{entry.name}: {name}")


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"of the queue (default: {FOLDER})")
    parser.add_argument("command", choices=["start", "status", "land", "stop", "work"])
    parser.add_argument("--cores", type=int, default=1, help="runs at once, a core each (default: 1)")
    args = parser.parse_args()
    folder = args.folder.resolve()
    try:
        if args.command == "start":
            start(folder, args.cores)
        elif args.command == "work":
            work(folder, args.cores)
        else:
            {"status": status, "land": land, "stop": stop}[args.command](folder)
    except ValueError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
