"""GMIs as processes of this machine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from gmi_drl.launch.group_leader import GroupLeader
from gmi_drl.launch.processes.reaper import Reaper
from gmi_drl.processes.signals import DRAIN, STACKS, held_back
from gmi_drl.roles.launcher.connection import MAX_BYTES, socket_pair
from gmi_drl.roles.launcher.resources import Resources

CHILD = "gmi_drl.roles.main"
"""The module of a GMI's process."""


class GMIProcess(GroupLeader):
    """See `GMIHandle`.

    Args:
        order: What `roles.main` reads, without the connection, the resources and the parent's process id.
        environment: All environment variables of the process.
        log: The file for its output.
        resources: What it shares with other GMIs: descriptors that it inherits.
        reaper: Kills the process group if this process dies, unless the GMI drains: then the backend ends it.
        module: The module to run.
    """

    where = ""

    def __init__(
        self,
        order: Mapping[str, Any],
        environment: Mapping[str, str],
        log: Path,
        resources: Resources,
        reaper: Reaper,
        module: str = CHILD,
    ) -> None:
        self.log, self._reaper, self._drains = log, reaper, bool(order["drains"])
        self._connection, theirs = socket_pair()
        self._connection.setblocking(False)
        ours = {"launcher": theirs.fileno(), "resources": resources.to_order(), "parent": os.getpid()}
        # In a file in memory: an argument of a process has at most 128 KiB.
        with theirs, open(os.memfd_create("gmi-drl-order"), "w+") as paper, log.open("ab") as output:
            paper.write(json.dumps({**order, **ours}))
            paper.seek(0)
            name = f"GMI {order['gmi']} of {order['run_folder']}"  # shown by `ps`
            with held_back():
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, str(paper.fileno()), name],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno(), paper.fileno(), *resources.descriptors],
                    process_group=0,  # the terminal's Ctrl-C must reach the launcher only
                )
                super().__init__(process)
                if not self._drains:
                    reaper.watch(self.pid)

    @property
    def connection_fd(self) -> int:
        """Readable when a message has come, or the connection has ended."""
        return self._connection.fileno()

    def send(self, message: bytes) -> None:
        """Send a message. Does nothing if the process has ended."""
        with suppress(OSError):
            self._connection.send(message)

    def receive(self) -> bytes | None:
        """The next message; empty if the connection has ended, None if nothing has come."""
        try:
            return self._connection.recv(MAX_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def ask_to_end(self) -> None:
        """See `GMIHandle`."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.exit_fd, DRAIN if self._drains else signal.SIGKILL)

    def show_stacks(self) -> None:
        """See `GMIHandle`."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.exit_fd, STACKS)

    def end(self) -> None:
        """See `GroupLeader.end`."""
        super().end()
        self._reaper.forget(self.pid)

    def close(self) -> None:
        """Close the connection to a process that has ended."""
        self._connection.close()
        super().close()

    def last_words(self, most: int) -> list[str]:
        """See `GMIHandle`."""
        return end_of(self.log, most)


def end_of(log: Path, most: int) -> list[str]:
    """At most `most` last lines of a log; none if it cannot be read."""
    with suppress(OSError):
        return log.read_text(errors="replace").splitlines()[-most:]
    return []


@contextmanager
def processes_here() -> Iterator[Callable[..., GMIProcess]]:
    """Yield a `Starter` of processes on this machine, for the time of a `with` block, which must outlast the GMIs.

    Meanwhile a reaper kills them with their process groups if this process dies.
    """
    with closing(Reaper()) as reaper:
        yield partial(GMIProcess, reaper=reaper)
