"""Kills all processes that a program has started, however the program ends.

A watchdog process waits for that end. It finds the processes by an environment variable that children inherit: a
process group is not enough, as GMIs lead groups of their own and a daemon leaves its group. The watchdog is a script
that imports only the standard library.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

MARK = "GMI_DRL_KEPT_IN"
GRACE_S = 3.0
"""Seconds between SIGTERM and SIGKILL."""
KILLED_S = 10.0
"""Seconds until a killed process must be gone. One that hangs in the driver is left behind."""
WATCHDOG_S = 150.0
"""Seconds to wait for a watchdog of gmi_drl: more than it needs."""
QUIT_S = 6.0
LOOK_EVERY_S = 0.05
MPS = "nvidia-cuda-mps"
"""The kernel's name of MPS's daemon and servers: the first 15 letters."""


@contextmanager
def kept() -> Iterator[Path]:
    """Make a folder for a `with` block. Its path is short, as sockets may lie in it.

    Processes whose environment has the folder as `MARK` are killed at the end of the block, or when this process dies.
    After them an MPS daemon in one of its folders `mps-*` is ended.
    """
    folder = Path(tempfile.mkdtemp(prefix="gmi-kept-"))
    watchdog = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != MARK},  # else another watchdog would kill it
        cwd="/",
    )
    assert watchdog.stdin is not None
    try:
        yield folder
    finally:
        watchdog.stdin.close()
        watchdog.wait()


def main() -> None:
    """Wait until the program closes its end of the pipe or dies, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # signals are for the program
    os.read(0, 1)
    sweep(Path(sys.argv[1]))


def sweep(folder: Path) -> None:
    """End all processes marked with a folder, clients before the daemon that serves them, and remove the folder.

    A watchdog of gmi_drl ends what its launcher has started in the order that MPS and MIG need, so wait for it.
    """
    watchdogs = partial(gmi_watchdogs, folder)
    others = partial(all_but, folder, lambda pid: is_mps(pid) or is_watchdog(pid))
    until_gone(others, signal.SIGTERM, GRACE_S)
    until_gone(lambda: [parent_of(pid) for pid in watchdogs() if parent_of(pid) in others()], signal.SIGKILL, KILLED_S)
    until_gone(watchdogs, None, WATCHDOG_S)
    until_gone(others, signal.SIGKILL, KILLED_S)
    for pipes in folder.glob("mps-*") if marked(folder) else ():
        with suppress(OSError, subprocess.SubprocessError):  # it does not answer
            control(pipes, "quit -t 2", QUIT_S)
    until_gone(partial(marked, folder), signal.SIGTERM, GRACE_S)
    until_gone(partial(marked, folder), signal.SIGKILL, KILLED_S)
    shutil.rmtree(folder, ignore_errors=True)


def until_gone(pids: Callable[[], list[int]], number: signal.Signals | None, seconds: float) -> None:
    """Send a signal (or none) to processes, and to those that they start meanwhile, until none is left."""
    deadline, told = time.monotonic() + seconds, set[int]()
    while (left := pids()) and time.monotonic() < deadline:
        for pid in set(left) - told if number else ():
            with suppress(OSError):
                os.kill(pid, number)
        told.update(left)
        time.sleep(LOOK_EVERY_S)


def all_but(folder: Path, is_left_out: Callable[[int], bool]) -> list[int]:
    """The marked processes, except some."""
    return [pid for pid in marked(folder) if not is_left_out(pid)]


def gmi_watchdogs(folder: Path) -> list[int]:
    """The marked watchdogs of gmi_drl."""
    return [pid for pid in marked(folder) if is_watchdog(pid)]


def is_watchdog(pid: int) -> bool:
    """Whether a process is a watchdog of gmi_drl."""
    with suppress(OSError):
        return b"gmi_drl.gmi.launcher_watchdog" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def parent_of(pid: int) -> int:
    """The parent of a process; 0 if the process has ended."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def marked(folder: Path) -> list[int]:
    """The processes whose environment has a folder as `MARK`."""
    found, mark = [], f"{MARK}={folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def is_mps(pid: int) -> bool:
    """Whether a process is of MPS itself."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().startswith(MPS)
    return False


def control(pipes: Path, command: str, seconds: float) -> str:
    """Send a command to the MPS daemon of a pipe directory. Returns its answer."""
    own = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_LOG_DIRECTORY": str(pipes)}
    ended = subprocess.run(
        ["nvidia-cuda-mps-control"],
        input=f"{command}\n",
        env=os.environ | own,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    return (ended.stdout + ended.stderr).strip()


if __name__ == "__main__":
    main()
