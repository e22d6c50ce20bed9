"""Starts processes that clean up when their launcher dies: the reaper of processes, the watchdog of devices."""

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

from gmi_drl.processes.signals import held_back

REMEDY = "install Python there again, end other processes, or raise the limits `ulimit -u` and `ulimit -n`"
"""What a user can do if such a process cannot be started."""


def start_cleanup_process(
    command: Sequence[str],
    *,
    errors: int | IO[bytes] = subprocess.DEVNULL,
    holds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process and return it with our end of a connection to it.

    Its stdin is the other end (SOCK_SEQPACKET). A last argument is added: a pidfd of this process. It shows the death
    of this process, while a fork of it may keep the connection open. Signals of a terminal do not reach the process.

    Args:
        command: The program and its arguments.
        errors: Its stderr.
        holds: Descriptors that it inherits, such as locks that it holds until it ends.
        env: Its environment; None for that of this process.
        folder: Its working directory; None for that of this process.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    launcher = os.pidfd_open(os.getpid())
    try:
        with theirs, held_back():
            process = subprocess.Popen(
                [*command, str(launcher)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=env,
                cwd=folder,
                pass_fds=[launcher, *holds],
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    finally:
        os.close(launcher)
    return process, ours
