"""Make the environment .venv from requirements-lock.txt, unless it is there and still right.

    python workshop/environment/make_env.py             .venv, for everything but grading
    ... --grading                                       .venv-grading, for nbgrader; students' code runs in .venv
    ... --bench                                         .venv-bench, the package beside its peers

Uses nothing but the standard library, and no syntax newer than Python 3.6: its first job is to say clearly that
Python is too old. uv resolves the locks (`make lock`), but pip installs: it takes torch's build without CUDA from a
folder of wheels or a second index, as PIP_FIND_LINKS and PIP_EXTRA_INDEX_URL name them, where uv takes the first index.
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KIND = next((option for option in ("grading", "bench") if "--" + option in sys.argv[1:]), "")
ENV = ROOT / (".venv-" + KIND if KIND else ".venv")
STAMP = ENV / "complete"
PROGRAMS = "Scripts" if os.name == "nt" else "bin"
PYTHON = ENV / PROGRAMS / "python"
LOCK = "requirements-grading-lock.txt" if KIND == "grading" else "requirements-lock.txt"
# Each kernel would warn that it listens on a port of this machine; in a build that is noise.
KERNEL_CONFIG = ENV / "etc" / "ipython" / "ipython_kernel_config.py"
INPUTS = (LOCK, "pyproject.toml", "workshop/environment/make_env.py")
# What pip is asked for, command by command. The package comes alone: the lock has all its dependencies.
NEEDED = {
    "": ("-r " + LOCK, "--no-deps --editable ."),
    "grading": ("-r " + LOCK,),
    "bench": ("torch numpy tokenizers sacrebleu transformers sentencepiece", "--editable ."),
}[KIND]
# Peers of the benchmarks, which do without one that cannot be installed. Two ask for versions of torch or protobuf that
# exclude a current torch, and for much that the benchmark never calls: they come alone, after what they do need.
PEERS = (
    "x-transformers==2.31.10",
    "ctranslate2==4.8.5",
    "configargparse==1.9.0 pyonmttok==1.38.1 pyahocorasick==2.3.1 rapidfuzz==3.14.6 pyyaml six tensorboard==2.21.0",
    "--no-deps OpenNMT-py==3.5.1",
    "matplotlib packaging pyyaml six wrapt importlib_metadata subword-nmt==0.3.8 tensorboard==2.21.0",
    "--no-deps joeynmt==2.3.0",
)


def check_python():
    if sys.version_info < (3, 11):  # noqa: UP036
        version = ".".join(map(str, sys.version_info[:3]))
        sys.exit(
            f"This project needs Python 3.11 or newer; {sys.executable} is {version}.\n"
            "Name another one, for example: make book PYTHON=python3.12"
        )
    try:
        __import__("ensurepip")
        __import__("venv")
    except ImportError:
        sys.exit(f"{sys.executable} cannot make environments: install its venv package (on Debian, python3-venv).")


def fingerprint():
    """What the environment is made from: a moved folder or a changed input gives another value."""
    digest = hashlib.sha256()
    for name in INPUTS:
        digest.update((ROOT / name).read_bytes())
    return f"{ENV}\n{digest.hexdigest()}\n"


def install(update):
    """Install what the environment needs, in the versions of the lock; then the peers, of the benchmarks alone."""
    if update:
        STAMP.unlink()
    else:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENV)], check=True)
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--constraint", LOCK]
    for requirements in NEEDED:
        subprocess.run(pip + requirements.split(), check=True, cwd=ROOT)
    for requirements in PEERS if KIND == "bench" else ():
        if subprocess.run(pip + requirements.split(), check=False, cwd=ROOT).returncode:
            print(f"Left out: {requirements}", flush=True)
    KERNEL_CONFIG.parent.mkdir(parents=True, exist_ok=True)
    KERNEL_CONFIG.write_text('c = get_config()  # noqa: F821\nc.IPKernelApp.log_level = "ERROR"\n', "utf-8")


def size_in_gb():
    return sum(path.lstat().st_size for path in ENV.rglob("*")) / 1e9


def wait_for_others():
    """Hold the lock file of the requirements until it is closed: two commands at once must not both install."""
    file = (ROOT / LOCK).open("rb")
    try:
        import fcntl
    except ImportError:  # not on this system
        return file
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def main():
    check_python()
    with wait_for_others():
        make()


def make():
    wanted = fingerprint()
    # The stamp is there only while the environment is whole: an interrupted installation starts again.
    there = STAMP.exists() and PYTHON.exists()  # PYTHON may be a link to one that has gone
    found = STAMP.read_text("utf-8") if there else ""
    if found == wanted:
        return
    start = time.time()
    print(f"Making {ENV.name} from {LOCK}: some minutes the first time.", flush=True)
    try:
        install(update=found.split("\n")[0] == str(ENV))
    except subprocess.CalledProcessError:
        sys.exit("The environment is not finished: see above. The same command tries again.")
    STAMP.write_text(wanted, "utf-8")
    print(f"{ENV.name} is ready: {time.time() - start:.0f} s, {size_in_gb():.1f} GB.", flush=True)


if __name__ == "__main__":
    main()
