"""How agents come to run on their nodes, and the way that needs nobody: as processes of this machine."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from gmi_drl.process_signals import held_back

MODULE = "gmi_drl.launch.nodes.supervisor"
"""What is run on a node, `python -P -m`. Its order is a line of JSON on its standard input, which stays open for as
long as whoever started it wants it to live."""


END_S = 20.0
"""Until an agent has ended its GMIs, a backend's drain included."""


class StartedAgent(Protocol):
    """An agent that runs somewhere."""

    def why_gone(self) -> str | None:
        """How it ended, as far as that is known; None while it runs."""

    def end(self, wait_s: float = END_S) -> None:
        """End it, if it still runs: it is asked to, and killed after `wait_s`. May be called twice."""


class SupervisorStarter(Protocol):
    """A way to start agents."""

    @property
    def address(self) -> str:
        """Of this machine, by which the nodes reach it."""

    def start(self, node: str, order: bytes) -> StartedAgent:
        """Have the agent of a node of the layout start, without waiting for it: many are started at once.

        Args:
            node: By its name.
            order: A line of JSON, to be its first input.
        """


class SubprocessSupervisors:
    """Agents on this machine: for layouts over described nodes, and for tests.

    Args:
        prefixes: What is put before the command of a node's agent, e.g. `["ip", "netns", "exec", "a"]`.
        address: See `SupervisorStarter`.
    """

    def __init__(self, prefixes: Mapping[str, Sequence[str]] | None = None, address: str = "127.0.0.1") -> None:
        self.prefixes, self.address = prefixes or {}, address

    def start(self, node: str, order: bytes) -> "SubprocessAgent":
        """See `SupervisorStarter`."""
        return SubprocessAgent([*self.prefixes.get(node, ()), sys.executable, "-P", "-m", MODULE, node], order)


class SubprocessAgent:
    """See `StartedAgent`. It leads a process group of its own, out of reach of the terminal."""

    def __init__(self, command: Sequence[str], order: bytes) -> None:
        with held_back():
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0, env=dict(os.environ)
            )
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(order)
            self.process.stdin.flush()

    def why_gone(self) -> str | None:
        """See `StartedAgent`."""
        code = self.process.poll()
        return None if code is None else f"its agent (process {self.process.pid}) has ended with code {code}"

    def end(self, wait_s: float = END_S) -> None:
        """See `StartedAgent`."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
