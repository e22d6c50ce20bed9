"""What runs within Ray on each node: an actor that starts our agent there and waits for its end."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence

MOST_LINES = 20
TAIL_BYTES = 16_384
RAYS_OWN = ("RAY_", "OMP_NUM_THREADS", "PYTHONBREAKPOINT")
"""Beginnings of variables that Ray sets for its workers, and which are not for GMIs."""


class AgentHost:
    """Holds a bundle of a placement group. Its one agent ends when its standard input does: with this process."""

    def ready(self) -> int:
        """That it has started: its process."""
        return os.getpid()

    def run(self, command: Sequence[str], order: str) -> tuple[int, list[str]]:
        """Start the agent, and wait until it has ended.

        Called by Ray in the main thread, which lives as long as the process: the agent may ask the kernel for its own
        end with it (PR_SET_PDEATHSIG follows threads).

        Args:
            command: Of the agent; its first line of input is the order, after which the input stays open.
            order: JSON in one line. Not an argument, since it holds a secret.

        Returns:
            The exit code, as `subprocess` has it, and the last lines that it printed.
        """
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # Ray starts its workers with SIGINT blocked
        with tempfile.TemporaryFile() as output:
            agent = subprocess.Popen(
                command,
                env={name: value for name, value in os.environ.items() if not name.startswith(RAYS_OWN)},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,  # Ray ends the groups of its workers
            )
            assert agent.stdin is not None
            try:
                agent.stdin.write(f"{order}\n".encode())
                agent.stdin.flush()
            except BrokenPipeError:  # it has ended already, and its output says why
                pass
            code = agent.wait()
            output.seek(max(0, output.seek(0, os.SEEK_END) - TAIL_BYTES))
            return code, output.read().decode(errors="replace").splitlines()[-MOST_LINES:]
