"""Make the environment .venv from requirements-lock.txt, unless it is there and still right.

    python workshop/environment/make_env.py             .venv, for everything but grading
    ... --grading                                       .venv-grading, for nbgrader; students' code runs in .venv

Uses nothing but the standard library, and no syntax newer than Python 3.6: its first job is to say clearly that
Python is too old. pip does the rest. What pip alone lacks: it does not notice that the folder was moved, that a try
was interrupted or that another command installs at the same time. uv resolves the locks (`make lock`), but does not
install: of several indexes it takes the first that knows a package, and torch's build without CUDA is in the second.
"""

import hashlib
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IS_GRADING = "--grading" in sys.argv[1:]
ENV = ROOT / (".venv-grading" if IS_GRADING else ".venv")
STAMP, PYTHON = ENV / "complete", ENV / "bin" / "python"
LOCK = "requirements-grading-lock.txt" if IS_GRADING else "requirements-lock.txt"
# Each kernel would warn that it listens on a port of this machine; in a build that is noise.
KERNEL_CONFIG = ENV / "etc" / "ipython" / "ipython_kernel_config.py"


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
    inputs = (ROOT / LOCK, ROOT / "pyproject.toml", Path(__file__))
    return f"{ENV}\n{hashlib.sha256(b''.join(path.read_bytes() for path in inputs)).hexdigest()}\n"


def install(update):
    """Install what the lock names, and the package alone: the lock has all its dependencies."""
    STAMP.unlink(missing_ok=True)
    if not update:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENV)], check=True)
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "-r", LOCK], check=True, cwd=ROOT)
    if not IS_GRADING:
        subprocess.run([*pip, "--no-deps", "--editable", "."], check=True, cwd=ROOT)
    KERNEL_CONFIG.parent.mkdir(parents=True, exist_ok=True)
    KERNEL_CONFIG.write_text('c = get_config()  # noqa: F821\nc.IPKernelApp.log_level = "ERROR"\n', "utf-8")


def main():
    check_python()
    import fcntl

    with (ROOT / LOCK).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two commands at once must not both install
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
        print(f"{ENV.name} is ready: {time.time() - start:.0f} s.", flush=True)


if __name__ == "__main__":
    main()
