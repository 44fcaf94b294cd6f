"""The queue of long runs: each in a clone, resumed after a kill, landed when it is done."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("fcntl", reason="the queue runs on Linux and macOS")
from workshop.lab import run_queue

COUNT = """
import json, pathlib, sys, time
here = pathlib.Path("checkpoints") / sys.argv[1]
here.mkdir(parents=True, exist_ok=True)
done = len(list(here.iterdir()))
for step in range(done, 3):
    time.sleep(float(sys.argv[2]))
    (here / str(step)).touch()
results = pathlib.Path("experiments/results")
results.mkdir(parents=True, exist_ok=True)
result = {"begun_at": done, "code": pathlib.Path("code.txt").read_text()}
(results / f"{sys.argv[1]}.json").write_text(json.dumps(result))
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A small repository with a list of two runs and one that fails; and a folder for the queue."""
    root = tmp_path / "the repository"
    (root / "experiments").mkdir(parents=True)
    (root / "count.py").write_text(COUNT)
    (root / "code.txt").write_text("old")
    (root / ".gitignore").write_text("checkpoints\n")
    program = root / "workshop" / "lab" / "run_queue.py"
    program.parent.mkdir(parents=True)
    program.write_text(Path(run_queue.__file__).read_text("utf-8"), "utf-8")
    runs = [("first", "count.py first 0.5"), ("broken", "count.py"), ("second", "count.py second 0.01")]
    listed = "".join(f'[[run]]\nname = "{name}"\ncommand = "{command}"\n' for name, command in runs)
    (root / "experiments" / "queue.toml").write_text(listed)
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *command], cwd=root, check=True)
    return root


def queue(root, *arguments):
    command = [sys.executable, "workshop/lab/run_queue.py", "--folder", str(root.parent / "queue"), *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)


def wait_for(root, text):
    deadline = time.monotonic() + 30
    while text not in (said := queue(root, "status").stdout):
        assert time.monotonic() < deadline, said
        time.sleep(0.2)
    return said


@pytest.mark.slow
def test_the_queue_survives_a_kill_and_keeps_to_the_code_it_began_with(repository):
    folder = repository.parent / "queue"
    assert "process" in queue(repository, "start").stdout
    second_worker = queue(repository, "start")
    assert second_worker.returncode == 1
    assert "works on the queue already" in second_worker.stderr
    deadline = time.monotonic() + 30
    while not (folder / "checkpoints" / "first" / "0").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(int((folder / "worker").read_text()), signal.SIGKILL)
    assert "cut" in wait_for(repository, "nothing runs")
    (repository / "code.txt").write_text("new")  # work in the repository goes on
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, "commit", "-qam", "two"], cwd=repository, check=True)
    (repository / "code.txt").write_text("never committed")
    (folder / "first" / "clone" / "code.txt").write_text("what the run itself wrote over a file of the repository")
    said = queue(repository, "start", "--cores", "2")
    assert "not committed" in said.stderr
    said = wait_for(repository, "nothing runs")
    states = {line.split()[3].rstrip(":"): line.split()[0] for line in said.splitlines() if " min  " in line}
    assert states == {"first": "done", "broken": "failed", "second": "done"}
    queue(repository, "land")
    results = {path.stem: json.loads(path.read_text()) for path in (repository / "experiments/results").iterdir()}
    assert results["first"]["begun_at"] >= 1  # went on from what it had
    assert results["first"]["code"] == "old"
    assert results["second"] == {"begun_at": 0, "code": "new"}  # what is not committed is not run
    shutil.rmtree(folder / "first" / "clone")  # landed and tidied up
    assert queue(repository, "land").returncode == 0


def test_a_clone_that_fails_does_not_end_the_slot(repository, monkeypatch, capfd):
    monkeypatch.setattr(run_queue, "ROOT", repository)
    monkeypatch.setattr(run_queue, "LIST", repository / "experiments" / "queue.toml")
    folder = repository.parent / "queue"
    (folder / "first" / "clone").mkdir(parents=True)  # no repository
    run_queue.work(folder, cores=1)
    states = {entry.name: entry.state["state"] for entry in run_queue.entries(folder)}
    assert states == {"first": "failed", "broken": "failed", "second": "done"}
    assert "first" in capfd.readouterr().err


def test_names_are_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(run_queue, "LIST", tmp_path / "queue.toml")
    for name in ("a/b", "..//x", "a b"):
        run_queue.LIST.write_text(f'[[run]]\nname = "{name}"\ncommand = "x.py"\n')
        with pytest.raises(ValueError, match="must be a name of its own"):
            run_queue.entries(tmp_path)
    run_queue.LIST.write_text('[[run]]\nname = "a"\ncommand = "x.py"\n' * 2)
    with pytest.raises(ValueError, match="must be a name of its own"):
        run_queue.entries(tmp_path)


def test_the_list_of_runs_can_be_run():
    for entry in run_queue.entries(Path("queue")):
        assert (run_queue.ROOT / entry.command.split()[0]).is_file()
