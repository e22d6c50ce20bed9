"""How supervisors of nodes are started: the interface, and the way as processes of this machine."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from gmi_drl.processes.signals import held_back

MODULE = "gmi_drl.launch.nodes.supervisor"
"""The module that is run on a node by `python -P -m`. It reads a line of JSON from its standard input, and ends when
that is closed."""

END_S = 20.0
"""Deadline for a supervisor to end its GMIs, including a backend's drain."""


class SupervisorHandle(Protocol):
    """A started supervisor."""

    def why_ended(self) -> str | None:
        """How the supervisor ended, if known; None while it runs."""

    def end(self, wait_s: float = END_S) -> None:
        """Make the supervisor end, and kill it after `wait_s`. May be called twice."""


class SupervisorStarter(Protocol):
    """Starts supervisors."""

    @property
    def address(self) -> str:
        """The address by which the nodes reach this machine."""

    def start(self, node: str, order: bytes) -> SupervisorHandle:
        """Start the supervisor of a node without waiting until it runs: many are started at once.

        Args:
            node: The node's name in the layout.
            order: A line of JSON, the supervisor's first input.
        """


class SubprocessSupervisors:
    """Starts supervisors as processes of this machine, for layouts over described nodes and for tests.

    Args:
        prefixes: Arguments before the command of a node's supervisor, e.g. `["ip", "netns", "exec", "a"]`.
        address: See `SupervisorStarter`.
    """

    def __init__(self, prefixes: Mapping[str, Sequence[str]] | None = None, address: str = "127.0.0.1") -> None:
        self.prefixes, self.address = prefixes or {}, address

    def start(self, node: str, order: bytes) -> "SubprocessSupervisor":
        """See `SupervisorStarter`."""
        return SubprocessSupervisor([*self.prefixes.get(node, ()), sys.executable, "-P", "-m", MODULE, node], order)


class SubprocessSupervisor:
    """See `SupervisorHandle`. It leads a process group of its own, so the terminal's signals do not reach it."""

    def __init__(self, command: Sequence[str], order: bytes) -> None:
        with held_back():
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0, env=dict(os.environ)
            )
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(order)
            self.process.stdin.flush()

    def why_ended(self) -> str | None:
        """See `SupervisorHandle`."""
        code = self.process.poll()
        return None if code is None else f"its supervisor (process {self.process.pid}) has ended with code {code}"

    def end(self, wait_s: float = END_S) -> None:
        """See `SupervisorHandle`."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
