"""The process of one GMI as its launcher has it: started, listened to, and ended with all that it has started."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from select import POLLIN, poll
from typing import Any

from gmi_drl.launch.guard import Guard
from gmi_drl.launch.started import UNKNOWN
from gmi_drl.roles.line import MAX_BYTES, line_pair
from gmi_drl.roles.resources import Resources

CHILD = "gmi_drl.roles.child"
"""What runs in the process of a GMI."""

KILLED_S = 10.0  # until a process must be gone that was killed; one that a driver holds in the kernel is left to it


class GMIProcess:
    """Leads a process group, which is what its role has started and not put into a session of its own.

    Args:
        order: What `roles.child` reads, but for the line, the resources and the launcher.
        environment: All of it.
        log: Takes what the process prints.
        resources: What it shares with other GMIs: descriptors, inherited.
        guard: Ends it with the launcher, unless it `drains` (see `Instances`): then the backend does.
        module: What runs.
    """

    where = ""

    def __init__(
        self,
        order: Mapping[str, Any],
        environment: Mapping[str, str],
        log: Path,
        resources: Resources,
        guard: Guard,
        module: str = CHILD,
    ) -> None:
        self.log, self._guard = log, guard
        self._line, theirs = line_pair()
        self._line.setblocking(False)
        ours = {"line": theirs.fileno(), "resources": resources.to_order(), "parent": os.getpid()}
        # In memory, since an argument of a process is at most 128 KiB long.
        with theirs, open(os.memfd_create("gmi-drl-order"), "w+") as paper, log.open("ab") as output:
            paper.write(json.dumps({**order, **ours}))
            paper.seek(0)
            name = f"GMI {order['gmi']} of {order['run_folder']}"  # for those who look at processes
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(paper.fileno()), name],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno(), paper.fileno(), *resources.descriptors],
                process_group=0,  # the terminal's Ctrl-C is for the launcher alone
            )
        self.pid = self._process.pid
        try:
            self.exit_fd = os.pidfd_open(self.pid)
        except OSError:  # no descriptors are left
            self._process.kill()
            self._process.wait()
            raise
        if not order["drains"]:
            guard.watch(self.pid)

    @property
    def line_fd(self) -> int:
        """Readable when a message has come, or the line has ended."""
        return self._line.fileno()

    def say(self, message: bytes) -> None:
        """Send a message; one that has ended does not hear it."""
        with suppress(OSError):
            self._line.send(message)

    def receive(self) -> bytes | None:
        """One message; empty when the line has ended, None when nothing has come."""
        try:
            return self._line.recv(MAX_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def exit_code(self, wait_s: float) -> int | None:
        """As `subprocess` has it, negative for a signal; None if it still runs after `wait_s`. It is not reaped.

        `UNKNOWN` where somebody else has reaped it: a program whose parent ignored SIGCHLD does so unasked.
        """
        event = poll()
        event.register(self.exit_fd, POLLIN)
        if not event.poll(max(0.0, 1000 * wait_s)):
            return None
        try:
            ended = os.waitid(os.P_PIDFD, self.exit_fd, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            return UNKNOWN
        assert ended is not None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def ask_to_end(self) -> None:
        """By SIGTERM."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.exit_fd, signal.SIGTERM)

    def end(self) -> None:
        """Kill it, if it still runs, with its whole group. It is reaped after that only: its number is its own."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            if self.exit_code(KILLED_S) is not None:
                self._process.wait()
        self._guard.forget(self.pid)

    def close(self) -> None:
        """Close the line to a process that has ended."""
        self._line.close()
        os.close(self.exit_fd)

    def last_words(self, most: int) -> list[str]:
        """See `StartedGMI`."""
        return end_of(self.log, most)


def end_of(log: Path, most: int) -> list[str]:
    """So many lines of a log at most, the last ones; none if it cannot be read."""
    with suppress(OSError):
        return log.read_text(errors="replace").splitlines()[-most:]
    return []


@contextmanager
def processes_here() -> Iterator[Callable[..., GMIProcess]]:
    """A `Starter` of GMIs as processes of this machine, for the time of a `with` block, which ends after the last one.

    Meanwhile a guard ends them with all that they have started if this process is killed.
    """
    guard = Guard()
    try:
        yield partial(GMIProcess, guard=guard)
    finally:
        guard.close()
