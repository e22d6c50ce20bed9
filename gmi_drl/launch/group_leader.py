"""A child process that leads a process group: waited for, and killed with its group."""

import os
import signal
import subprocess
from contextlib import suppress
from select import POLLIN, poll

from gmi_drl.launch.processes.gmi_handle import UNKNOWN

KILLED_S = 10.0  # deadline for a killed process to disappear; one that hangs in a driver is abandoned


class GroupLeader:
    """A child process and its process group: its descendants, without those that have started a session.

    Args:
        process: Started with `process_group=0`; nobody else waits for it.

    Attributes:
        pid: The id of the process and of its group.
        exit_fd: A pidfd: readable when the process has ended.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process, self.pid = process, process.pid
        self._code: int | None = None
        try:
            self.exit_fd = os.pidfd_open(self.pid)
        except OSError:  # no descriptors are left
            process.kill()
            process.wait()
            raise

    def exit_code(self, wait_s: float) -> int | None:
        """The exit code as in `subprocess`; None if the process still runs after `wait_s`. Does not reap it.

        `UNKNOWN` if the kernel has reaped it already, as in a program whose parent ignored SIGCHLD. Still known after
        `end`.
        """
        event = poll()
        event.register(self.exit_fd, POLLIN)
        if self._code is None and event.poll(max(0.0, 1000 * wait_s)):
            try:
                ended = os.waitid(os.P_PIDFD, self.exit_fd, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                self._code = UNKNOWN
            else:
                assert ended is not None
                self._code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        return self._code

    def end(self) -> None:
        """Kill the process with its group, then reap it. Until then no other process can get its number."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            if self.exit_code(KILLED_S) is not None:
                self._process.wait()

    def close(self) -> None:
        """Close the pidfd of a process that has ended."""
        os.close(self.exit_fd)
