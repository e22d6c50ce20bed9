"""The end of clients and daemons, in the order that MPS needs: drain, `terminate_client`, kill, and then the daemon.

A client that is killed with work in flight can leave the server, and with it the other clients, in an undefined state
(https://docs.nvidia.com/deploy/mps, "Client Termination"; pytorch#32575).
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals, pidfd_send_signal
from typing import Any

from gmi_drl.gmi.mps.control import PIPES, Control, ControlError, SilentError
from gmi_drl.gmi.mps.folder import controls_in, keeper_log, stale

UNDO = f"{__name__}:undo"
UNDO_S = 180.0
"""More than all that follows takes, if all of it must be waited for."""

DRAIN_S = 10.0
"""For a client to end by itself, when it has been asked to."""

PATIENCE_S = 2
"""For the daemon to wait for clients that are left when it shall quit: there should be none."""

QUIT_S = 6.0
LEAVE_S = 1.0
SIGTERM_S = 3.0
KILLED_S = 10.0
"""Until a process must be gone; one that a driver holds in the kernel is left to it."""

LOOK_EVERY_S = 0.05
MPS = "nvidia-cuda-mps"
"""What the kernel calls daemon, servers and the control program: the first 15 letters of their names."""


def undo(notes: Mapping[str, Any]) -> list[str]:
    """End all that was started in a claim's folder (note `folder`), and remove it; what is left, with a remedy."""
    folder = Path(notes["folder"])
    end_clients(folder, controls_in(folder))
    end_daemons(folder, controls_in(folder))
    if left := [*clients(folder), *daemons(folder)]:
        pids = ", ".join(map(str, left))
        return [f"processes {pids} of MPS in {folder} cannot be killed: `gmi-drl doctor --remove-stale` tries again"]
    shutil.rmtree(folder, ignore_errors=True)
    keeper_log(folder).unlink(missing_ok=True)
    return [f"{folder} cannot be removed: remove it"] if folder.exists() else []


def remove_stale() -> list[str]:
    """Undo what killed launchers and keepers have left; what cannot be undone."""
    return [text for folder in stale() for text in undo({"folder": str(folder)})]


def end_clients(folder: Path, controls: list[Control]) -> None:
    """End all processes that were started as clients in a folder, with what they have started."""
    # Those that do not catch SIGTERM would be killed by it as they are.
    _until_gone(lambda: list(filter(catches_sigterm, clients(folder))), partial(send, folder, SIGTERM), DRAIN_S)
    take_away(controls, clients(folder))
    _until_gone(partial(clients, folder), partial(send, folder, SIGKILL), KILLED_S)


def end_daemons(folder: Path, controls: list[Control]) -> None:
    """End the daemons with their servers: by `quit`, and by their process ids if that hangs."""
    for control in controls:
        if daemons(folder):
            with suppress(ControlError):
                control.quit(PATIENCE_S, QUIT_S)
    _until_gone(partial(daemons, folder), lambda pid: None, LEAVE_S)
    _until_gone(partial(daemons, folder), partial(send, folder, SIGTERM), SIGTERM_S)
    _until_gone(partial(daemons, folder), partial(send, folder, SIGKILL), KILLED_S)


def take_away(controls: list[Control], pids: list[int]) -> None:
    """Let daemons end the contexts of those of these processes that still are clients, if they answer."""
    for control in controls if pids else ():
        with suppress(ControlError):
            for client, server in control.clients().items():
                if client in pids:
                    _terminate(control, server, client)


def _terminate(control: Control, server: int, client: int) -> None:
    try:
        control.terminate(server, client)
    except SilentError:  # nor would it answer for the next one
        raise
    except ControlError:  # it has ended meanwhile
        pass


def clients(folder: Path) -> list[int]:
    """Processes that were started as clients of a daemon in a folder, and what they have started."""
    return [pid for pid in _marked(folder) if not _is_mps(pid)]


def daemons(folder: Path) -> list[int]:
    """Processes of MPS itself that were started in a folder."""
    return [pid for pid in _marked(folder) if _is_mps(pid)]


def catches_sigterm(pid: int) -> bool:
    """Whether SIGTERM lets a process end in order."""
    with suppress(OSError, StopIteration, ValueError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
        return bool(caught >> (SIGTERM - 1) & 1)
    return False


def send(folder: Path, number: Signals, pid: int) -> None:
    """Send a signal to a process of a folder, and to no other that has got its number meanwhile."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if _is_marked(folder, pid):
                pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _until_gone(pids: Callable[[], list[int]], tell: Callable[[int], None], seconds: float) -> None:
    """Tell each of these processes to end, also those that come meanwhile, and wait until there are none.

    That must be so twice in a row: one that is just being started has its mark a moment later.
    """
    deadline, told, empty = time.monotonic() + seconds, set[int](), 0
    while empty < 2 and time.monotonic() < deadline:
        now = set(pids())
        for pid in now - told:
            tell(pid)
        told |= now
        empty = 0 if now else empty + 1
        time.sleep(LOOK_EVERY_S)


def _marked(folder: Path) -> list[int]:
    numbers = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in numbers if _is_marked(folder, pid)]


def _is_marked(folder: Path, pid: int) -> bool:
    """Whether a process was started with a pipe directory in a folder, by which all that it starts is known, too."""
    mark = f"{PIPES}={folder}/".encode()
    with suppress(OSError):  # it has ended, or is another user's
        return any(word.startswith(mark) for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    return False


def _is_mps(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().startswith(MPS)
    return False
