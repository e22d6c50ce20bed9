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
from typing import Any

from gmi_drl.launch.group_leader import GroupLeader
from gmi_drl.launch.processes.reaper import Reaper
from gmi_drl.process_signals import DRAIN, held_back
from gmi_drl.roles.launcher.connection import MAX_BYTES, socket_pair
from gmi_drl.roles.launcher.resources import Resources

CHILD = "gmi_drl.roles.main"
"""What runs in the process of a GMI."""


class GMIProcess(GroupLeader):
    """See `GMIHandle`.

    Args:
        order: What `roles.main` reads, but for the line, the resources and the launcher.
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
        guard: Reaper,
        module: str = CHILD,
    ) -> None:
        self.log, self._guard, self._drains = log, guard, bool(order["drains"])
        self._line, theirs = socket_pair()
        self._line.setblocking(False)
        ours = {"launcher": theirs.fileno(), "resources": resources.to_order(), "parent": os.getpid()}
        # In memory, since an argument of a process is at most 128 KiB long.
        with theirs, open(os.memfd_create("gmi-drl-order"), "w+") as paper, log.open("ab") as output:
            paper.write(json.dumps({**order, **ours}))
            paper.seek(0)
            name = f"GMI {order['gmi']} of {order['run_folder']}"  # for those who look at processes
            with held_back():
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, str(paper.fileno()), name],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno(), paper.fileno(), *resources.descriptors],
                    process_group=0,  # the terminal's Ctrl-C is for the launcher alone
                )
                super().__init__(process)
                if not self._drains:
                    guard.watch(self.pid)

    @property
    def line_fd(self) -> int:
        """Readable when a message has come, or the line has ended."""
        return self._line.fileno()

    def send(self, message: bytes) -> None:
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

    def ask_to_end(self) -> None:
        """See `GMIHandle`."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.exit_fd, DRAIN if self._drains else signal.SIGKILL)

    def end(self) -> None:
        """See `GroupLeader.end`."""
        super().end()
        self._guard.forget(self.pid)

    def close(self) -> None:
        """Close the line to a process that has ended."""
        self._line.close()
        super().close()

    def last_words(self, most: int) -> list[str]:
        """See `GMIHandle`."""
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
    guard = Reaper()
    try:
        yield partial(GMIProcess, guard=guard)
    finally:
        guard.close()
