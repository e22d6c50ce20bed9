"""The actor that Ray runs on each node: it starts the node's supervisor and waits for its end."""

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
"""Prefixes of variables that Ray sets for its workers and GMIs must not inherit."""


class SupervisorActor:
    """Occupies a bundle of a placement group. The supervisor ends with this process, which holds its standard input."""

    def __init__(self) -> None:
        self._supervisor: subprocess.Popen[bytes] | None = None

    def ready(self) -> int:
        """The process id, as a sign that the actor has started."""
        return os.getpid()

    def run(self, arguments: Sequence[str], order: bytes) -> tuple[int, list[str]]:
        """Start the supervisor and wait until it has ended.

        One thread does both, as the supervisor may ask the kernel to be killed with its parent: PR_SET_PDEATHSIG reacts
        to the end of the thread.

        Args:
            arguments: Arguments for the node's interpreter.
            order: The first line of the supervisor's input, which then stays open. Not an argument: it has a secret.

        Returns:
            The exit code as in `subprocess`, and the last lines of the output.
        """
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # Ray starts its workers with SIGINT blocked
        with tempfile.TemporaryFile() as output:
            self._supervisor = subprocess.Popen(
                [sys.executable, *arguments],
                env={name: value for name, value in os.environ.items() if not name.startswith(RAYS_OWN)},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,  # Ray ends the groups of its workers
            )
            assert self._supervisor.stdin is not None
            with suppress(BrokenPipeError):  # it has ended already, and its output says why
                self._supervisor.stdin.write(order)
                self._supervisor.stdin.flush()
            code = self._supervisor.wait()
            output.seek(max(0, output.seek(0, os.SEEK_END) - TAIL_BYTES))
            return code, output.read().decode(errors="replace").splitlines()[-MOST_LINES:]

    def close_input(self) -> None:
        """Make the supervisor end."""
        if self._supervisor is not None and self._supervisor.stdin is not None:
            with suppress(OSError):
                self._supervisor.stdin.close()
