"""Kills what GMIs have started when their launcher is killed: a process beside the launcher, which starts it.

It removes folders that only the launcher would have removed, too. The kernel kills the GMIs then (PR_SET_PDEATHSIG),
but not their children, and nobody is left to do it. Run as a script, this file imports nothing but the standard
library: the guard is there in a moment and small.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from select import POLLIN, poll

LINE = 0  # the guard's end of its line to the launcher
WORD_BYTES = 4096
REMOVED_S = 5.0
"""For removing a folder into which somebody still writes."""
REPLACED_S = 1.0
"""Between two replacements at least, should somebody kill every guard."""


class Reaper:
    """The launcher's end: tells the guard which process groups are to be killed if the launcher dies.

    A thread waits for the guard's death. A guard that somebody has killed is replaced, which is told once (GmiWarning).
    """

    def __init__(self) -> None:
        self._watched: dict[str, Sequence[int]] = {}  # what was said and holds, in order, with its pidfds
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._start()
        self._watcher = threading.Thread(target=self._replace, daemon=True)
        self._watcher.start()

    def _start(self) -> None:
        from gmi_drl.process_signals import held_back  # here, as the script has the standard library alone

        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        launcher = os.pidfd_open(os.getpid())  # its death is seen by this, as forks of it may hold the line open
        try:
            with theirs, held_back():
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__, str(launcher)],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[launcher],
                    start_new_session=True,
                    cwd="/",
                )
        finally:
            os.close(launcher)

    def watch(self, group: int) -> None:
        """Have a group killed with the launcher."""
        self._watch(str(group))

    def forget(self, group: int) -> None:
        """The group has ended: its number may be given to others."""
        with self._lock:
            self._watched.pop(str(group), None)
            self._say(str(-group))

    def watch_process(self, pid: int) -> None:
        """Have a process killed with the launcher that leads no group; one that has ended until then is no matter.

        Guards are told its pidfd, as its number may be another process's by the time that one of them is replaced.
        """
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            self._watch(f"={process}", [process])

    def watch_folder(self, folder: Path) -> None:
        """Have a folder removed with the launcher; one that has gone until then is no matter."""
        self._watch(str(folder))

    def close(self) -> None:
        """End the guard, when all groups have ended."""
        with self._lock:
            self._closed.set()
            self._line.close()
            self._process.kill()
        self._watcher.join()
        for process in chain.from_iterable(self._watched.values()):
            os.close(process)

    def _watch(self, word: str, pidfds: Sequence[int] = ()) -> None:
        with self._lock:
            self._watched[word] = pidfds
            self._say(word, pidfds)

    def _say(self, word: str, pidfds: Sequence[int] = ()) -> None:
        with suppress(OSError):  # it was killed: its successor is told all that is watched
            socket.send_fds(self._line, [os.fsencode(word)], pidfds)

    def _replace(self) -> None:
        """Start another guard whenever one has ended, until `close`."""
        for replaced in count():
            self._process.wait()
            with self._lock:
                if self._closed.is_set():
                    return
                self._line.close()
                text = f"the guard (process {self._process.pid}) was killed"
                try:
                    self._start()
                except OSError as error:
                    _warn(f"{text}, another one cannot be started ({error}): end this process by SIGTERM, not SIGKILL")
                    return
                for word, pidfds in self._watched.items():
                    self._say(word, pidfds)
            if not replaced:
                _warn(f"{text}: another one ends what GMIs have started if this process is killed")
            self._closed.wait(REPLACED_S)


def _warn(text: str) -> None:
    from gmi_drl.errors import GmiWarning  # here, as the script has the standard library alone

    warnings.warn(text, GmiWarning, stacklevel=1)


def main() -> None:
    """Take in groups until the launcher is no more, then kill those that are left."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # they are for the launcher, which may take its time
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {ignored})
    launcher, line, events = int(sys.argv[1]), socket.socket(fileno=LINE), poll()
    groups, processes, folders = set[int](), list[int](), list[bytes]()
    events.register(LINE, POLLIN)
    events.register(launcher, POLLIN)
    while LINE in dict(events.poll()):  # only when all that was said is read does the launcher's end count
        word, pidfds, _, _ = socket.recv_fds(line, WORD_BYTES, 1)
        if not word:
            break
        if word.startswith(b"/"):
            folders.append(word)
        elif word.startswith(b"="):
            processes += pidfds
        else:
            number = int(word)
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
    """With all that is in it, and what comes meanwhile."""
    deadline = time.monotonic() + REMOVED_S
    while os.path.lexists(folder) and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
