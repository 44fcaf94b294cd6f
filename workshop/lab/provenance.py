"""Where a recorded number comes from, and the one way to write it down."""

import datetime
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "results"


def _commit() -> str:
    """The commit of the code that runs, marked if the tree has other changes."""
    if named := os.environ.get("TRANSFORMER_LIB_COMMIT"):  # a copy of the files without its repository
        return named
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        described = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git on this machine
        return "unknown"
    return described.stdout.strip() or "unknown"


COMMIT = _commit()  # noted at the start, because the repository may change during the run


def provenance(seed: int, seconds: float) -> dict[str, Any]:
    """Command, seed, device, versions, date and duration of a run that ends."""
    packages = ("torch", "numpy", "tokenizers", "sacrebleu")
    versions = {"python": platform.python_version()}
    versions |= {name: version_of(name) for name in packages}
    return {
        "command": shlex.join(["python", _program(), *sys.argv[1:]]),
        "commit": COMMIT,
        "seed": seed,
        "device": _device(),
        "threads": torch.get_num_threads(),
        "versions": versions,
        "date": _today(),
        "seconds": round(seconds, 1),
    }


def origin(command: str, packages: tuple[str, ...], **about: Any) -> dict[str, Any]:
    """What an exported file came from: command, what the caller tells of it, the versions of what wrote it, date."""
    return {"command": command, **about, "versions": {name: version(name) for name in packages}, "date": _today()}


def write_result(name: str, result: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write `experiments/results/NAME.json`, readable, in a fixed order of keys, whole or not at all."""
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return part.replace(path)


def seal(result: dict[str, Any]) -> dict[str, Any]:
    """The result with the digest of its content, whatever seal it had."""
    content = {name: value for name, value in result.items() if name != "sha256"}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return content | {"sha256": hashlib.sha256(text.encode()).hexdigest()}


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")


def version_of(package: str) -> str:
    """The version of a package, or that it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:  # the environment of the benchmarks lacks some
        return "not installed"


def _program() -> str:
    path = Path(sys.argv[0]).resolve()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def _device() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"CPU, {os.cpu_count()} cores, {platform.machine()}"
