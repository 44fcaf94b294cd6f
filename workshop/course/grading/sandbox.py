"""Where students' code runs: it sees the interpreter, the package and an empty folder, and nothing of anybody else.

bubblewrap makes that place: namespaces of its own for files, processes and network, and an end to every process in it
when the grader lets go. Without bubblewrap there are limits alone, and `missing` says what that means.
"""

import contextlib
import functools
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/alternatives", "/etc/fonts")
SYSTEM += ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime")
OWN = (ROOT / "transformer_lib", ROOT / "transformer_run", HERE / "inside.py", HERE / "refusal.py", HERE / "wire.py")
KEPT_VARIABLES = ("LANG", "LC_ALL")
FOLDERS = 4  # all files of a submission together may be so many times as large as one
HOME = "/tmp/submission"  # there alone: the home folder and the working folder of what runs
WITHOUT = "GRADING_WITHOUT_SANDBOX"  # a variable that is 1 where there is none; where it is not set, none means failure
# Ubuntu 24.04 lets no program make namespaces that has no profile: installing bubblewrap is not enough there.
RESTRICTED = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")  # holds 1 there
FORBIDDEN = ("uid map", "RTM_NEWADDR")  # in what bubblewrap says there; the second, if it takes the network away, too
APPARMOR = """\
; on Ubuntu 24.04 AppArmor forbids it. Write this line
abi <abi/4.0>, profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }
to /etc/apparmor.d/bwrap, and run `sudo systemctl reload apparmor`"""
UNPROTECTED = """\
NO SANDBOX: {why}. Until there is one, a submission can read, change and delete what you can, the solutions and the
other submissions and the marks among it, use the network, and leave processes behind. Grade a class that you do not
know inside a container or a virtual machine that holds nothing else, or install bubblewrap (Debian: apt install
bubblewrap)."""
ALL_THE_SAME = "Nothing was run. To go on all the same, add --without-sandbox (make grade: ARGS=--without-sandbox)."


def _limit(default: int, what: str) -> int:
    return field(default=default, metadata={"for": what})


@dataclass
class Limits:
    """What one submission may use."""

    cell_seconds: int = _limit(20, "for a cell of the student's or a check")
    notebook_seconds: int = _limit(600, "for a whole notebook, and of processor time for each of its processes")
    memory_mb: int = _limit(4096, "of memory for a process")
    file_mb: int = _limit(64, f"for a file that a notebook writes, {FOLDERS} times as much for all")
    output_kilobytes: int = _limit(32, "kept of what one cell prints")


def wall(limits: Limits, python: Path, shown: dict[Path, str], folder: Path | None = None) -> list[str]:
    """bubblewrap with all that a submission may see, and nothing that it may change but an empty folder, or `folder`.

    Args:
        python: of the environment that it runs in.
        shown: file → where it is to be read.
    """
    prefix, settings = Path(sys.base_prefix), python.parents[1] / "pyvenv.cfg"
    if settings.exists():  # conda and the system's Python have none
        home = re.search(r"^home *= *(.+)$", settings.read_text("utf-8"), re.MULTILINE)
        prefix = Path(home[1]).parent  # type: ignore[index]
    read = {path: str(path) for path in {python.parents[1], prefix, prefix.resolve()} - {Path("/")}} | shown
    size = str(FOLDERS * limits.file_mb << 20)
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in SYSTEM:
        command += ["--ro-bind-try", path, path]
    command += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    command += ["--size", size, "--tmpfs", "/tmp", "--dir", HOME]
    for path, place in read.items():
        command += ["--ro-bind", str(path), place]
    if folder:
        command += ["--bind", str(folder), str(folder)]
    return [*command, "--remount-ro", "/", "--chdir", str(folder or HOME)]


def unlisted(walled: list[str], python: Path) -> tuple[list[str], list[int]]:
    """A command that starts Python behind a wall and names no folder of this machine in the list of processes.

    bubblewrap reads its options from a file; python.parent must be on the path. The second result is that file's
    descriptor, which the process inherits and its parent closes. Without a wall: Python itself.
    """
    if not walled:
        return [str(python)], []
    options = os.memfd_create("options")
    with open(options, "wb", closefd=False) as file:
        file.write("\0".join(walled[1:]).encode("utf-8", "surrogateescape"))
    os.lseek(options, 0, os.SEEK_SET)
    return [walled[0], "--args", str(options), python.name], [options]


@functools.cache
def missing(python: Path) -> str:
    """What bubblewrap lacks here; nothing if it works."""
    if not shutil.which("bwrap"):
        return "bubblewrap is not installed"
    command = [*wall(Limits(), python, {}), str(python), "-c", ""]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if not done.returncode:
        return ""
    forbidden = any(words in done.stderr for words in FORBIDDEN)
    forbidden |= RESTRICTED.exists() and RESTRICTED.read_text("utf-8").strip() == "1"
    return f"bubblewrap does not work here ({done.stderr.strip()[-200:]})" + APPARMOR * forbidden


def warned(python: Path, go_on: bool) -> str:
    """What to print first where there is no sandbox; nothing where there is one.

    Raises:
        SystemExit: there is none, and nobody said to go on.
    """
    if not (why := missing(python)):
        return ""
    said = UNPROTECTED.format(why=why)
    if not go_on:
        raise SystemExit(f"{said}\n{ALL_THE_SAME}")
    return f"{said}\n"


@functools.cache
def broken(python: Path) -> str:
    """Why no submission could run here, not even a right one, as in a folder that was moved; nothing if it can."""
    walled = [] if missing(python) else wall(Limits(), python, {path: str(path) for path in OWN})
    needed = "import workshop.course.grading.inside, importlib.util as u; assert u.find_spec('transformer_lib')"
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [*walled, str(python), "-c", needed], cwd=elsewhere, env=environment(elsewhere, python),
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    return done.stderr.strip()[-200:] if done.returncode else ""


def bound(limits: Limits) -> None:
    """Bound what a process may use; going beyond is an error in the student's code, not on the machine.

    Many processes together may still fill the memory: then the kernel ends theirs first, not the grader's.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", "utf-8")
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits.notebook_seconds,
        resource.RLIMIT_FSIZE: limits.file_mb << 20,
        # Data, not address space: a CUDA build of torch maps gigabytes of libraries that it never touches.
        resource.RLIMIT_DATA: limits.memory_mb << 20,
    }
    for kind, bound in bounds.items():
        _, highest = resource.getrlimit(kind)
        value = bound if highest == resource.RLIM_INFINITY else min(bound, highest)
        resource.setrlimit(kind, (value, value))


class Sandbox:
    """A process in which one submission runs, and whatever that starts."""

    def __init__(self, limits: Limits, keep: int, matplotlib: Path):
        """Start it with one end of a socket, `keep`, and the cache of fonts in `matplotlib`."""
        python = Path(sys.executable)
        self.folder = tempfile.TemporaryDirectory(prefix="grade-", ignore_cleanup_errors=True)
        self.is_walled = os.environ.get(WITHOUT) != "1"
        home = HOME if self.is_walled else self.folder.name
        fonts = {path: f"{home}/matplotlib/{path.name}" for path in sorted(matplotlib.glob("fontlist*.json"))}
        if not self.is_walled:
            Path(home, "matplotlib").mkdir()
            for path, place in fonts.items():
                shutil.copy(path, place)
        shown = fonts | {path: str(path) for path in OWN}
        command, options = unlisted(wall(limits, python, shown) if self.is_walled else [], python)
        self.process = subprocess.Popen(
            [*command, "-m", "workshop.course.grading.inside", str(keep), str(limits.output_kilobytes)],
            cwd=self.folder.name,
            env=environment(home, python),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[keep, *options],
            start_new_session=True,
            preexec_fn=lambda: bound(limits),  # noqa: PLW1509 - the checker has one thread
        )
        for one in options:
            os.close(one)

    def stop(self, seconds: float = 0) -> None:
        """End every process of it, after a moment in which it may end by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.folder.cleanup()


def environment(home: str, python: Path) -> dict[str, str]:
    """Few of the grader's variables, this Python first on the path, and settings without surprises."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | {
        "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
        "HOME": home,
        "TMPDIR": home,
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "MPLCONFIGDIR": f"{home}/matplotlib",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Compiled, an answer would need a compiler, and its operators would be out of sight (refusal.py).
        "PYTORCH_JIT": "0",
        "TORCHDYNAMO_DISABLE": "1",
        # `!pip install` in a student's cell must not change the environment in which the next one is graded.
        "PIP_TARGET": f"{home}/site",
        "PIP_NO_INDEX": "1",
    }
