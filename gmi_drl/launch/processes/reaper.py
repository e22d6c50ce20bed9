"""A process beside the launcher that kills process groups and removes folders when the launcher is killed.

The kernel then kills the GMIs (PR_SET_PDEATHSIG), but not their children, and no other process would. Run as a script,
this file imports only the standard library, so the reaper starts quickly and is small.
"""

import os
import shutil
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from select import POLLIN, poll

SOCKET = 0  # the reaper's end of its connection to the launcher
MESSAGE_BYTES = 4096
REMOVED_S = 5.0
"""How long removing a folder is retried while files are still created in it."""
REPLACED_S = 1.0
"""The least time between two replacements, in case every reaper is killed at once."""


class Reaper:
    """The launcher's end: starts the reaper process and tells it what to kill or remove if the launcher dies.

    A thread waits for the reaper's death, and starts another one. The first time it warns (GmiWarning).

    Raises:
        MachineError: if it cannot be started.
    """

    def __init__(self) -> None:
        self._watched: dict[str, Sequence[int]] = {}  # messages that still hold, in order, with their pidfds
        self._lock, self._closed = threading.Lock(), threading.Event()
        try:
            self._start()
        except OSError as error:
            raise _not_started(error) from None
        self._watcher = threading.Thread(target=self._replace, daemon=True)
        self._watcher.start()

    def _start(self) -> None:
        from gmi_drl.processes.cleanup import start_cleanup_process  # here: the script has the standard library only

        self._process, self._socket = start_cleanup_process([sys.executable, "-I", "-S", __file__], folder="/")

    def watch(self, group: int) -> None:
        """Kill this process group when the launcher dies."""
        self._watch(str(group))

    def watch_own_group(self) -> None:
        """In a forked child, before it runs another program: kill its process group when the launcher dies.

        So there is no moment in which nobody would. It takes no lock, which another thread may have held at the fork;
        the launcher calls `watch` after it, so that a reaper that replaces this one knows the group, too.
        """
        self._send(str(os.getpid()))

    def forget(self, group: int) -> None:
        """Do not kill this group any more: it has ended, and another one may get its number."""
        with self._lock:
            self._watched.pop(str(group), None)
            self._send(str(-group))

    def watch_process(self, pid: int) -> None:
        """Kill this process, which leads no group, when the launcher dies. It may have ended until then.

        The reaper gets a pidfd: when a reaper is replaced, the number may be another process's.
        """
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            self._watch(f"={process}", [process])

    def watch_folder(self, folder: Path) -> None:
        """Remove this folder when the launcher dies. It may be gone until then."""
        self._watch(str(folder))

    def close(self) -> None:
        """End the reaper. All groups must have ended."""
        with self._lock:
            self._closed.set()
            self._socket.close()
            self._process.kill()
        self._watcher.join()
        for process in chain.from_iterable(self._watched.values()):
            os.close(process)

    def _watch(self, message: str, pidfds: Sequence[int] = ()) -> None:
        with self._lock:
            self._watched[message] = pidfds
            self._send(message, pidfds)

    def _send(self, message: str, pidfds: Sequence[int] = ()) -> None:
        with suppress(OSError):  # it was killed: the next one gets all messages again
            socket.send_fds(self._socket, [os.fsencode(message)], pidfds)

    def _replace(self) -> None:
        """Start another reaper whenever one has ended, until `close`."""
        for replaced in count():
            self._process.wait()
            with self._lock:
                if self._closed.is_set():
                    return
                self._socket.close()
                text = f"the reaper (process {self._process.pid}) was killed"
                try:
                    self._start()
                except OSError as error:
                    _warn(f"{text} and cannot be replaced ({error}): end this process by SIGTERM, not SIGKILL")
                    return
                for message, pidfds in self._watched.items():
                    self._send(message, pidfds)
            if not replaced:
                _warn(f"{text} and is replaced by another, which ends what GMIs have started if this process is killed")
            self._closed.wait(REPLACED_S)


def _not_started(error: OSError) -> Exception:
    from gmi_drl.errors import MachineError  # as in `_start`
    from gmi_drl.processes.cleanup import REMEDY

    what = "the reaper, which ends what GMIs have started if this process is killed"
    return MachineError(f"{sys.executable} cannot be started as {what} ({error}): {REMEDY}")


def _warn(text: str) -> None:
    from gmi_drl.errors import GmiWarning  # here, since the script imports the standard library only

    warnings.warn(text, GmiWarning, stacklevel=1)


def main() -> None:
    """The reaper process: read messages until the launcher dies, then end what it still watches."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # only the launcher reacts to them, and may take its time
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {ignored})
    launcher, connection, events = int(sys.argv[1]), socket.socket(fileno=SOCKET), poll()
    groups, processes, folders = set[int](), list[int](), list[bytes]()
    events.register(SOCKET, POLLIN)
    events.register(launcher, POLLIN)
    while SOCKET in dict(events.poll()):  # all messages are read before the launcher's death counts
        message, pidfds, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 1)
        if not message:
            break
        if message.startswith(b"/"):
            folders.append(message)
        elif message.startswith(b"="):
            processes += pidfds
        else:
            number = int(message)
            groups = groups | {number} if number > 0 else groups - {-number}
    for group in groups:
        with suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    for process in processes:
        with suppress(OSError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
    for folder in folders:
        remove(folder)


def remove(folder: bytes) -> None:
    """Remove a folder, also while files are created in it."""
    deadline = time.monotonic() + REMOVED_S
    while os.path.lexists(folder) and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
