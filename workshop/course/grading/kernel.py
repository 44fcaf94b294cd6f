"""The kernel in which students' code runs: this much memory, CPU and file size, and no network where that can be had.

Started by jupyter in place of ipykernel_launcher, under the interpreter of .venv. Uses the standard library alone
before the kernel starts. It is no sandbox: the code can read what the user who grades can read.
"""

import ctypes
import importlib.util
import os
import resource
import runpy
import sys
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, INTERFACE_UP = 0x8914, 0x41
PR_SET_NO_NEW_PRIVILEGES = 38


def without_network() -> bool:
    """Move this process into a network of its own that holds nothing but the loopback device; False if refused."""
    if sys.platform != "linux":
        return False
    import fcntl
    import socket
    import struct

    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", INTERFACE_UP))
    libc.prctl(PR_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return True


def limit(memory_mb: int, cpu_seconds: int, file_mb: int) -> None:
    """Bound what the kernel may use; going beyond is an error in the student's code, not on the machine."""
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: file_mb << 20,
        # Data, not address space: a CUDA build of torch maps gigabytes of libraries that it never touches.
        resource.RLIMIT_DATA: memory_mb << 20,
    }
    for kind, bound in bounds.items():
        _, highest = resource.getrlimit(kind)
        value = bound if highest == resource.RLIM_INFINITY else min(bound, highest)
        resource.setrlimit(kind, (value, value))


def main() -> None:
    if sys.argv[1:] == ["--probe"]:
        print("no network" if without_network() else "network")
        return
    if os.environ.get("GRADING_NETWORK") != "1":
        without_network()
    limit(*(int(os.environ[f"GRADING_{name}"]) for name in ("MEMORY_MB", "CPU_SECONDS", "FILE_MB")))
    here = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location("_grader", here / "inside.py")
    assert spec
    assert spec.loader
    sys.modules["_grader"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["_grader"])
    runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
