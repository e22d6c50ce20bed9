"""The programs in `benchmarks/`, which are no package, for their tests."""

import sys
import time
from pathlib import Path

from tests.fork_server import SERVER

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

FAKE_MPS = (
    f"#!{sys.executable}"
    + """
import os, signal, sys, time
pipes = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
if "-d" in sys.argv:
    if os.fork():
        sys.exit(0)
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(f"{pipes}/pid", "w").write(str(os.getpid()))
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    while not (QUITS and os.path.exists(f"{pipes}/quit")):
        time.sleep(0.05)
    sys.exit(0)
command = sys.stdin.read().split()
if command[0] == "quit":
    open(f"{pipes}/quit", "w").close()
    QUITS or time.sleep(600)
elif command[0] == "get_server_list":
    STUCK and time.sleep(600)
else:
    print("1.0")
"""
)
"""A daemon and its control: it does not end by SIGTERM, only when it is told to quit, or not even then."""


def put_fake_mps(folder, *, quits=True, stuck=False):
    """Write one into a folder, which is to be in PATH."""
    program = folder / "nvidia-cuda-mps-control"
    program.write_text(FAKE_MPS.replace("QUITS", str(quits)).replace("STUCK", str(stuck)))
    program.chmod(0o755)


def run(name, *arguments, **more):
    """A program of `benchmarks/` with arguments."""
    line = [sys.executable, next(BENCHMARKS.glob(f"*/{name}.py")), *map(str, arguments)]
    return SERVER.run(line, capture_output=True, text=True, timeout=300, **more)


def wait_until(is_so, seconds=60):
    """Wait for something that comes soon; whether it came."""
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.05)
    return is_so()


def is_alive(pid):
    """Whether a process runs: one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
