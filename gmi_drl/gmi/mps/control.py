"""Commands to an MPS daemon, sent with NVIDIA's own program and with deadlines.

The commands are in "Appendix: Tools and Interface Reference" of https://docs.nvidia.com/deploy/mps, now called "Legacy
MPS v2 Interface" (latest/mpsv2-interface.html).
"""

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gmi_drl.errors import MachineError
from gmi_drl.layout.environment import without_mps

PROGRAM = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
ANSWER_S = 20.0
"""Deadline of an answer of the daemon."""

LOCK = "control.lock"
"""In the log directory. A daemon answers one program at a time: others fail (seen with driver 580). So those of ours
take turns."""
BUSY = "Cannot send command to MPS control daemon"
"""What NVIDIA's program says, or nothing, while the daemon answers another that takes no turns."""
BUSY_S = 10.0
"""Seconds for which a busy daemon is asked again."""
ASK_AGAIN_S = 0.05
TURN_S, LONGEST_TURN_S = 0.005, 3.0
"""Between two attempts to take the lock, and until one goes without: its holder may be stopped."""

SHOWN = 300  # characters of an unexpected answer in a message


class ControlError(MachineError):
    """An MPS daemon does not answer, refuses a command, or gives an unexpected answer."""


class SilentError(ControlError):
    """An MPS daemon did not answer in time."""


class Control:
    """Sends commands to one daemon.

    Args:
        pipes: Its pipe directory.
        logs: Its log directory.
    """

    def __init__(self, pipes: Path, logs: Path) -> None:
        self.pipes, self.logs = pipes, logs

    @property
    def whole_environment(self) -> dict[str, str]:
        """The variables of the daemon's own processes, without the user's of MPS: their caps would apply here."""
        return without_mps(os.environ) | self.environment

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which clients find this daemon."""
        return {PIPES: str(self.pipes), LOGS: str(self.logs)}

    def ask(self, command: str, deadline_s: float = ANSWER_S) -> str:
        """Send a command and return the daemon's answer. While it answers others it is asked again.

        Raises:
            SilentError: if there is no answer in time.
            ControlError: if NVIDIA's program fails, with its output.
        """
        began = time.monotonic()
        end, busy_end = began + deadline_s, began + min(deadline_s, BUSY_S)
        while True:
            try:
                with self._turn(min(LONGEST_TURN_S, deadline_s / 2)):
                    ended = self._run(command, max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise SilentError(f"MPS has not answered {command!r} within {deadline_s:g} s ({self.pipes})") from None
            except OSError as error:
                text = f"{PROGRAM} cannot be run: {error.strerror}; it comes with NVIDIA's driver"
                raise ControlError(text) from None
            if ended.returncode == 0:
                return ended.stdout.strip()
            said = (ended.stdout + ended.stderr).strip()[:SHOWN]
            if (said and BUSY not in said) or time.monotonic() > busy_end:
                raise ControlError(f"MPS refuses {command!r} with exit code {ended.returncode}: {said or 'no output'}")
            time.sleep(ASK_AGAIN_S)

    @contextmanager
    def _turn(self, seconds: float) -> Iterator[None]:
        """Hold the daemon's lock, which also goes with its holder, if it can be had in this time."""
        lock = self._lock(seconds)
        try:
            yield
        finally:
            if lock is not None:
                os.close(lock)

    def _lock(self, seconds: float) -> int | None:
        """The descriptor of the lock, which another may still hold after `seconds`; None if there is no folder."""
        try:
            lock = os.open(self.logs / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        end = time.monotonic() + seconds
        with suppress(OSError):  # a file system without locks
            while time.monotonic() < end:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(TURN_S)
        return lock

    def _run(self, command: str, seconds: float) -> "subprocess.CompletedProcess[str]":
        """Run NVIDIA's program with a command."""
        return subprocess.run(
            [PROGRAM],
            input=f"{command}\n",
            env=self.whole_environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            start_new_session=True,  # Ctrl-C is for the launcher
        )

    def servers(self) -> list[int]:
        """The process ids of the daemon's servers, one for each user."""
        return self._numbers("get_server_list")

    def start_server(self, user: int) -> None:
        """Start the server of a user (by number) before the first client connects."""
        self.ask(f"start_server -uid {user}")

    def is_starting(self) -> bool:
        """Whether a server is not yet ready for clients."""
        return any("INITIALIZING" in self.ask(f"get_server_status {server}") for server in self.servers())

    def clients(self, deadline_s: float = ANSWER_S) -> dict[int, int]:
        """The process ids of all clients, each with that of its server. The deadline is for each answer."""
        servers = self._numbers("get_server_list", deadline_s)
        return {pid: server for server in servers for pid in self._numbers(f"get_client_list {server}", deadline_s)}

    def terminate(self, server: int, client: int, deadline_s: float = ANSWER_S) -> None:
        """End a client's contexts in order, also with work in flight. The process lives on without a GPU."""
        self.ask(f"terminate_client {server} {client}", deadline_s)

    def quit(self, patience_s: int, deadline_s: float) -> None:
        """End the daemon and its servers. It waits at most `patience_s` for its clients to end."""
        try:
            self.ask(f"quit -t {patience_s}", deadline_s)
        except SilentError:
            raise
        except ControlError:  # `-t` is in the program's manual only: a daemon may not know it
            self.ask("quit", deadline_s)

    def _numbers(self, command: str, deadline_s: float = ANSWER_S) -> list[int]:
        answer = self.ask(command, deadline_s)
        words = answer.split()
        if not all(word.isdecimal() for word in words):
            raise ControlError(f"MPS answers {command!r} with no process ids: {answer[:SHOWN]!r}")
        return [int(word) for word in words]
