"""The environment of the benchmarks, `.venv-bench`: this package, its peers, and what they need."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(f"The benchmarks need Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}.")

ROOT = Path(__file__).resolve().parents[1]
ENV = ROOT / ".venv-bench"
STAMP = ENV / "peers.json"  # there only while the environment is whole: what was installed, or why not
PYTHON = ENV / ("Scripts" if os.name == "nt" else "bin") / "python"
LOCK = "requirements-lock.txt"

# In order; each row is a pip command of its own, so that one that fails leaves the others alone. The lock fixes the
# versions of what this project needs too. Two peers ask for versions of torch or protobuf that exclude a current
# torch, and for much that the benchmark never calls: they come without their dependencies, and after those they import.
INSTALLS: dict[str, tuple[list[str], ...]] = {
    "torch": (["torch", "numpy", "tokenizers", "sacrebleu"],),
    "this": (["--editable", "."],),
    "marian": (["transformers", "sentencepiece"],),
    "x-transformers": (["x-transformers==2.31.10"],),
    "ctranslate2": (["ctranslate2==4.8.5"],),
    "opennmt-py": (
        "configargparse==1.9.0 pyonmttok==1.38.1 pyahocorasick==2.3.1 rapidfuzz==3.14.6".split()
        + "pyyaml six sacrebleu tensorboard==2.21.0".split(),
        ["--no-deps", "OpenNMT-py==3.5.1"],
    ),
    "joeynmt": (
        "matplotlib sacrebleu sentencepiece packaging pyyaml six wrapt importlib_metadata".split()
        + "subword-nmt==0.3.8 tensorboard==2.21.0".split(),
        ["--no-deps", "joeynmt==2.3.0"],
    ),
}
NEEDED = ("torch", "this")  # without these there is nothing to measure


def fingerprint() -> str:
    """What the environment is made from: a moved folder or a changed input gives another value."""
    digest = hashlib.sha256(json.dumps(INSTALLS).encode())
    for name in (LOCK, "pyproject.toml"):
        digest.update((ROOT / name).read_bytes())
    return f"{ENV} {digest.hexdigest()}"


def install() -> dict[str, str]:
    """Make the environment unless it is there and still right; returns why a peer is missing, for those that are."""
    if STAMP.exists():
        made = json.loads(STAMP.read_text("utf-8"))
        if made["fingerprint"] == fingerprint():
            return made["missing"]
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < 4:
        sys.exit(f"{ROOT} has {free:.1f} GB free; the environment of the benchmarks needs 4.")
    start = time.time()
    print(f"Making {ENV.name} with the peers: some minutes, once.", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENV)], check=True)
    missing = {}
    for name, commands in INSTALLS.items():
        print(f"  {name}", flush=True)
        reason = next(filter(None, map(_pip, commands)), None)
        if reason and name in NEEDED:
            sys.exit(f"{name} cannot be installed: {reason}")
        if reason:
            missing[name] = reason
            print(f"  {name} is left out: {reason}", flush=True)
    STAMP.write_text(json.dumps({"fingerprint": fingerprint(), "missing": missing}, indent=1), "utf-8")
    print(f"{ENV.name} is ready: {time.time() - start:.0f} s, {_size_in_gb():.1f} GB.", flush=True)
    return missing


def _pip(arguments: list[str]) -> str | None:
    # None, or pip's own last words.
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-c", LOCK]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
    return errors[-1].removeprefix("ERROR: ")[:400] if errors else f"pip exited with {done.returncode}"


def _size_in_gb() -> float:
    return sum(path.lstat().st_size for path in ENV.rglob("*")) / 1e9
