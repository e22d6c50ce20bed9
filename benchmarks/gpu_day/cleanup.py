"""Ends what a program has started, however the program ends: a process beside it, and a mark that children inherit.

A process group would not do: GMIs lead groups of their own, and a daemon leaves its group. So the keeper finds
processes by a variable in the environment that they were started with. It is a script of its own, which imports nothing
but the standard library.
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
"""Between asking a process to end and killing it."""
KILLED_S = 10.0
"""Until it must be gone; one that a driver holds in the kernel is left to it."""
KEEPER_S = 150.0
"""More than a keeper of gmi_drl takes."""
QUIT_S = 6.0
LOOK_EVERY_S = 0.05
MPS = "nvidia-cuda-mps"
"""What the kernel calls MPS's daemon and its servers: the first 15 letters of their names."""


@contextmanager
def kept() -> Iterator[Path]:
    """A folder for the time of a `with` block, with a short path, as sockets may lie in it.

    Processes whose environment has it as `MARK` end with the block, or with this process if that is killed, and an MPS
    daemon in one of its folders `mps-*` after them.
    """
    folder = Path(tempfile.mkdtemp(prefix="gmi-kept-"))
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != MARK},  # else another keeper would end it
        cwd="/",
    )
    assert keeper.stdin is not None
    try:
        yield folder
    finally:
        keeper.stdin.close()
        keeper.wait()


def main() -> None:
    """Wait until the program closes its end of the pipe, or is no more."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are for the program
    os.read(0, 1)
    sweep(Path(sys.argv[1]))


def sweep(folder: Path) -> None:
    """End all that is marked with a folder, clients before the daemon that serves them, and remove it.

    A keeper of gmi_drl ends what its launcher has started in the order that MPS and MIG need. So it is waited for.
    """
    keepers = partial(kept_by_gmi, folder)
    others = partial(all_but, folder, lambda pid: is_mps(pid) or is_keeper(pid))
    until_gone(others, signal.SIGTERM, GRACE_S)
    until_gone(lambda: [parent_of(pid) for pid in keepers() if parent_of(pid) in others()], signal.SIGKILL, KILLED_S)
    until_gone(keepers, None, KEEPER_S)
    until_gone(others, signal.SIGKILL, KILLED_S)
    for pipes in folder.glob("mps-*") if marked(folder) else ():
        with suppress(OSError, subprocess.SubprocessError):  # it does not answer
            control(pipes, "quit -t 2", QUIT_S)
    until_gone(partial(marked, folder), signal.SIGTERM, GRACE_S)
    until_gone(partial(marked, folder), signal.SIGKILL, KILLED_S)
    shutil.rmtree(folder, ignore_errors=True)


def until_gone(pids: Callable[[], list[int]], number: signal.Signals | None, seconds: float) -> None:
    """Send a signal (or none) to processes, those that they start meanwhile, too, until there are none."""
    deadline, told = time.monotonic() + seconds, set[int]()
    while (left := pids()) and time.monotonic() < deadline:
        for pid in set(left) - told if number else ():
            with suppress(OSError):
                os.kill(pid, number)
        told.update(left)
        time.sleep(LOOK_EVERY_S)


def all_but(folder: Path, is_left_out: Callable[[int], bool]) -> list[int]:
    """Marked processes."""
    return [pid for pid in marked(folder) if not is_left_out(pid)]


def kept_by_gmi(folder: Path) -> list[int]:
    """Keepers of gmi_drl that are marked."""
    return [pid for pid in marked(folder) if is_keeper(pid)]


def is_keeper(pid: int) -> bool:
    """Whether a process is a keeper of gmi_drl."""
    with suppress(OSError):
        return b"gmi_drl.gmi.watchdog" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def parent_of(pid: int) -> int:
    """The process that has started it; 0 if it has ended."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def marked(folder: Path) -> list[int]:
    """Processes that were started with a folder as their mark."""
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
    """What the MPS daemon of a pipe directory answers."""
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
