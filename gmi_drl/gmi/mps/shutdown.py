"""Ends clients and daemons in the order that MPS needs: drain, `terminate_client`, stop, kill, and then the daemon.

If a client is killed with work in flight, the server and its other clients can be in an undefined state
(https://docs.nvidia.com/deploy/mps, "Client Termination"; pytorch#32575).
"""

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import SIGKILL, SIGSTOP, SIGTERM, pidfd_send_signal
from typing import Any

from gmi_drl.gmi.mps.control import PIPES, Control, ControlError, SilentError
from gmi_drl.gmi.mps.folder import Process, controls_in, remove, stale
from gmi_drl.processes.signals import DRAIN

UNDO = f"{__name__}:undo"


@dataclass(frozen=True)
class Patience:
    """Deadlines in seconds of the steps, for all GPUs and clients together.

    Args:
        drain_s: For clients to end by themselves after they have been asked to.
        take_s: For the daemons to end the contexts of clients that have not ended.
        late_s: The part of it for those that came late. One that was stopped while it became a client may block its
            daemon.
        quit_s: For the daemons to answer `quit`.
        leave_s: For daemons and servers to exit after that. A server frees the memory of a whole GPU.
        term_s: For daemons and servers that have not left to exit after SIGTERM.
        killed_s: For killed processes to disappear; one that hangs in the driver is then abandoned. Used for
            clients, then for daemons and servers.
    """

    drain_s: float = 10.0
    take_s: float = 20.0
    late_s: float = 3.0
    quit_s: float = 6.0
    leave_s: float = 15.0
    term_s: float = 3.0
    killed_s: float = 10.0

    @property
    def undo_s(self) -> float:
        """Twice the sum of all steps: the machine may be busy."""
        steps = self.drain_s + self.take_s + self.quit_s + self.leave_s + self.term_s + 2 * self.killed_s
        return 2 * steps


QUIT_PATIENCE_S = 2
"""How long a daemon that quits waits for remaining clients; there should be none."""

LOOK_EVERY_S = 0.05
MPS = "nvidia-cuda-mps"
"""The kernel's name of the daemon, the servers and the control program: the first 15 letters of theirs."""


def undo(notes: Mapping[str, Any]) -> list[str]:
    """End all processes of a claim and remove its folder. Returns what is left, with a remedy.

    Args:
        notes: `folder`; optionally `patience`, the fields of `Patience`, and for each GMI `group PID`: the start of the
            process that leads the group.
    """
    folder, patience = Path(notes["folder"]), Patience(**notes.get("patience", {}))
    groups = {int(name.split()[1]): began for name, began in notes.items() if name.startswith("group ") and began}
    try:
        end_clients(folder, controls_in(folder), patience)
    finally:
        end_groups(groups)
        end_daemons(folder, controls_in(folder), patience)
    if left := [*clients(folder), *daemons(folder)]:
        pids = ", ".join(map(str, left))
        return [f"processes {pids} of MPS in {folder} cannot be killed: `gmi-drl doctor --remove-stale` tries again"]
    remove(folder)
    return [f"{folder} cannot be removed: remove it"] if folder.exists() else []


def remove_stale() -> list[str]:
    """Undo what was left by launchers that were killed with their watchdogs. Returns what cannot be undone."""
    return [text for folder in stale() for text in undo({"folder": str(folder)})]


def end_clients(folder: Path, controls: list[Control], patience: Patience) -> None:
    """End all processes that were started as clients in a folder, and their children that carry its mark."""
    _until_gone(lambda: list(filter(drains_by, clients(folder))), partial(have_drain, folder), patience.drain_s)
    try:
        take_away(folder, controls, partial(clients, folder), patience)
    finally:
        _until_gone(partial(clients, folder), partial(send, folder, SIGKILL), patience.killed_s)


def end_groups(groups: Mapping[int, int]) -> None:
    """Kill the processes without the mark that GMIs have left in their groups.

    While a group has a process, the kernel gives its leader's number to no other process.

    Args:
        groups: The start of each group's leader, by its process id.
    """
    for leader, began in groups.items():
        if Process.of(leader).started in (0, began):
            with suppress(OSError):
                os.killpg(leader, SIGKILL)


def end_daemons(folder: Path, controls: list[Control], patience: Patience) -> None:
    """End the daemons and their servers: by `quit`, and by signals if that hangs."""
    if daemons(folder):
        _for_each_daemon(controls, lambda control: control.quit(QUIT_PATIENCE_S, patience.quit_s))
    _until_gone(partial(daemons, folder), lambda pid: None, patience.leave_s)
    _until_gone(partial(daemons, folder), partial(send, folder, SIGTERM), patience.term_s)
    _until_gone(partial(daemons, folder), partial(send, folder, SIGKILL), patience.killed_s)


def take_away(folder: Path, controls: list[Control], pids: Callable[[], list[int]], patience: Patience) -> None:
    """Make the daemons end the contexts of processes of a folder, and stop these. They stay stopped: kill them next.

    A process may become a client, or fork one, just after its daemon was asked for clients. So the daemons are asked
    again when all processes are stopped.

    Args:
        folder: The folder of the claim.
        controls: The daemons. One that does not answer in time is left alone.
        pids: The processes that are alive now.
        patience: Has the deadlines of all answers together.
    """
    first, ended, deadline = set(pids()), set[int](), time.monotonic() + patience.take_s
    if not first:
        return
    _for_each_daemon(controls, partial(_end_contexts, pids=first, ended=ended, deadline=deadline))
    late = _stopped(folder, pids, deadline) - ended
    deadline = min(deadline, time.monotonic() + patience.late_s)
    if late and time.monotonic() < deadline:
        _for_each_daemon(controls, partial(_end_contexts, pids=late, ended=ended, deadline=deadline))


def _end_contexts(control: Control, pids: set[int], ended: set[int], deadline: float) -> None:
    """End the contexts of those processes in `pids` that are clients of a daemon, and add them to `ended`."""
    for client, server in control.clients(deadline - time.monotonic()).items():
        if client in pids:
            ended.add(client)
            try:
                control.terminate(server, client, deadline - time.monotonic())
            except SilentError:  # it would not answer for the next client either
                raise
            except ControlError:  # the client has ended meanwhile
                pass


def _stopped(folder: Path, pids: Callable[[], list[int]], deadline: float) -> set[int]:
    """Stop processes, also those that they fork meanwhile. Returns all."""
    stopped = set[int]()
    while (new := set(pids()) - stopped) and time.monotonic() < deadline:
        for pid in new:
            send(folder, SIGSTOP, pid)
        stopped |= new
    return stopped


def _for_each_daemon(controls: list[Control], act: Callable[[Control], None]) -> None:
    """Call `act` for all daemons at the same time, so that one that hangs does not delay the others."""

    def attempt(control: Control) -> None:
        with suppress(ControlError):
            act(control)

    with ThreadPoolExecutor(max(1, len(controls))) as threads:
        list(threads.map(attempt, controls))


def clients(folder: Path) -> list[int]:
    """The processes that were started as clients of a daemon in a folder, and their children."""
    return [pid for pid in _marked(folder) if not _is_mps(pid)]


def daemons(folder: Path) -> list[int]:
    """The processes of MPS itself that were started in a folder."""
    return [pid for pid in _marked(folder) if _is_mps(pid)]


def drains_by(pid: int) -> int:
    """The signal by which a process ends in order: `DRAIN` for a GMI, SIGTERM for its children; 0 if there is none.

    That is the first of the two that the process catches or, if it is ending already, ignores. One that is stopped
    does not end by either.
    """
    with suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        if any(line.startswith("State:\tT") for line in lines):
            return 0
        masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigCgt:", "SigIgn:"))]
        return next((number for number in (DRAIN, SIGTERM) if any(mask >> (number - 1) & 1 for mask in masks)), 0)
    return 0


def have_drain(folder: Path, pid: int) -> None:
    """Send a process of a folder the signal by which it ends in order, if there is one."""
    if number := drains_by(pid):
        send(folder, number, pid)


def send(folder: Path, number: int, pid: int) -> None:
    """Send a signal to a process of a folder, but not to another one that has got its number meanwhile."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if _is_marked(folder, pid):
                pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _until_gone(pids: Callable[[], list[int]], signal_end: Callable[[int], None], seconds: float) -> None:
    """Call `signal_end` once for each of these processes, also for new ones, and wait until there are none.

    There must be none twice in a row: a process that is just starting has its mark a moment later.
    """
    deadline, signalled, empty = time.monotonic() + seconds, set[int](), 0
    while empty < 2 and time.monotonic() < deadline:
        now = set(pids())
        for pid in now - signalled:
            signal_end(pid)
        signalled |= now
        empty = 0 if now else empty + 1
        time.sleep(LOOK_EVERY_S)


def _marked(folder: Path) -> list[int]:
    numbers = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in numbers if _is_marked(folder, pid)]


def _is_marked(folder: Path, pid: int) -> bool:
    """Whether a process was started with a pipe directory in a folder. Its children inherit this mark."""
    mark = f"{PIPES}={folder}/".encode()
    with suppress(OSError):  # it has ended, or is another user's
        return any(word.startswith(mark) for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    return False


def _is_mps(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().startswith(MPS)
    return False
