"""What runs within Ray on each node: an actor that starts our agent there and waits for its end."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress

MOST_LINES = 20
TAIL_BYTES = 16_384
RAYS_OWN = ("RAY_", "OMP_NUM_THREADS", "PYTHONBREAKPOINT")
"""Beginnings of variables that Ray sets for its workers, and which are not for GMIs."""


class AgentHost:
    """Holds a bundle of a placement group. Its one agent ends when its standard input does: with this process."""

    def __init__(self) -> None:
        self._agent: subprocess.Popen[bytes] | None = None

    def ready(self) -> int:
        """That it has started: its process."""
        return os.getpid()

    def run(self, arguments: Sequence[str], order: bytes) -> tuple[int, list[str]]:
        """Start the agent, and wait until it has ended.

        The thread that starts it waits for it, too: the agent may have the kernel end it with this process
        (PR_SET_PDEATHSIG follows threads).

        Args:
            arguments: Of the interpreter of this node.
            order: A line, its first input, after which that stays open. Not an argument, since it holds a secret.

        Returns:
            The exit code, as `subprocess` has it, and the last lines that it printed.
        """
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # Ray starts its workers with SIGINT blocked
        with tempfile.TemporaryFile() as output:
            self._agent = subprocess.Popen(
                [sys.executable, *arguments],
                env={name: value for name, value in os.environ.items() if not name.startswith(RAYS_OWN)},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,  # Ray ends the groups of its workers
            )
            assert self._agent.stdin is not None
            with suppress(BrokenPipeError):  # it has ended already, and its output says why
                self._agent.stdin.write(order)
                self._agent.stdin.flush()
            code = self._agent.wait()
            output.seek(max(0, output.seek(0, os.SEEK_END) - TAIL_BYTES))
            return code, output.read().decode(errors="replace").splitlines()[-MOST_LINES:]

    def close_input(self) -> None:
        """Ask the agent to end."""
        if self._agent is not None and self._agent.stdin is not None:
            with suppress(OSError):
                self._agent.stdin.close()
