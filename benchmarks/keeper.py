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
from pathlib import Path

MARK = "GMI_DRL_KEPT_IN"
GRACE_S = 3.0
"""Between asking a process to end and killing it."""
KILLED_S = 10.0
"""Until it must be gone; one that a driver holds in the kernel is left to it."""
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
    """End all that is marked with a folder, clients before the daemon that serves them, and remove it."""
    end(lambda: [pid for pid in marked(folder) if not is_mps(pid)])
    for pipes in folder.glob("mps-*") if marked(folder) else ():
        with suppress(OSError, subprocess.SubprocessError):  # it does not answer
            control(pipes, "quit -t 2", QUIT_S)
    end(lambda: marked(folder))
    shutil.rmtree(folder, ignore_errors=True)


def end(pids: Callable[[], list[int]]) -> None:
    """End processes by SIGTERM and, after a while, by SIGKILL, those that they start meanwhile, too."""
    for number, seconds in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, KILLED_S)):
        deadline, told = time.monotonic() + seconds, set[int]()
        while (left := pids()) and time.monotonic() < deadline:
            for pid in set(left) - told:
                with suppress(OSError):
                    os.kill(pid, number)
            told.update(left)
            time.sleep(LOOK_EVERY_S)


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
