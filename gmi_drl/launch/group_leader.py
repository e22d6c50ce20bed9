"""A process that leads a process group: it is waited for, and ended with all that it has started."""

import os
import signal
import subprocess
from contextlib import suppress
from select import POLLIN, poll

from gmi_drl.launch.processes.gmi_handle import UNKNOWN

KILLED_S = 10.0  # until a process must be gone that was killed; one that a driver holds in the kernel is left to it


class GroupLeader:
    """Its group is what it has started and not put into a session of its own.

    Args:
        process: Started with `process_group=0`; nobody else waits for it.

    Attributes:
        pid: Its number, and its group's.
        exit_fd: Readable when it has ended.
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
        """As `subprocess` has it, negative for a signal; None if it still runs after `wait_s`. It is not reaped.

        `UNKNOWN` where somebody else has reaped it: a program whose parent ignored SIGCHLD does so unasked. Known also
        after `end`.
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
        """Kill it, if it still runs, with its whole group. It is reaped after that only: its number is its own."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            if self.exit_code(KILLED_S) is not None:
                self._process.wait()

    def close(self) -> None:
        """Let go of a process that has ended."""
        os.close(self.exit_fd)
