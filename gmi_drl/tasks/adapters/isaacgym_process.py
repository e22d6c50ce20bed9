"""Starts the process in which Isaac Gym runs, and talks to it from the GMI."""

import json
import mmap
import os
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from gmi_drl.errors import GmiError, MachineError
from gmi_drl.tasks.adapters import isaacgym_bridge as bridge

START_S = 300.0
"""Deadline for the simulator to make its environments, and for a reset of all of them."""

STEP_S = 60.0
"""Deadline for a step."""

GRACE_S = 3.0  # between closing the socket and killing the process
LOG_LINES = 20
LOG_BYTES = 8192


class BridgeProcess:
    """The process of `isaacgym_bridge.py`, started and asked for steps. It dies with this process.

    Attributes:
        hello: The sizes of the task and the bounds of its actions (see `Bridge.hello`).
        arrays: Arrays in shared memory by name (`isaacgym_bridge.fields`); they change with every `request`.

    Raises:
        MachineError: The interpreter cannot be run, or lacks Isaac Gym.
        GmiError: The task could not be made in time.
    """

    def __init__(self, python: Path, order: dict[str, Any]) -> None:
        self._python = python
        self._failed: GmiError | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        memory = os.memfd_create("gmi-drl-isaacgym", os.MFD_CLOEXEC)
        try:
            with theirs:
                self._process = self._start(order, theirs.fileno(), memory)
            self.hello = self._receive_hello()
            self.arrays = bridge.views(mmap.mmap(memory, 0), **self.hello["sizes"])
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory)

    def request(self, message: bytes, deadline_s: float) -> None:
        """Send RESET or STEP and wait until it is done.

        Raises:
            GmiError: The simulator failed, died or missed the deadline. Its process is ended, and every later request
                raises the same error.
        """
        if self._failed is not None:
            raise self._failed
        with suppress(OSError):  # the process has ended; it may have sent the reason
            self._socket.send(message)
        if self._receive(deadline_s) != bridge.DONE:
            raise self._failure("sent an unexpected message")

    def close(self) -> None:
        """End the process by closing the socket; kill it if it does not end."""
        self.arrays = {}
        self._socket.close()
        if (process := getattr(self, "_process", None)) is not None:
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()

    def _start(self, order: dict[str, Any], channel: int, memory: int) -> "subprocess.Popen[bytes]":
        order = order | {"version": bridge.VERSION, "line": channel, "memory": memory, "parent": os.getpid()}
        command = [str(self._python), "-u", bridge.__file__, json.dumps(order)]
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=[channel, memory],
            )
        except OSError as error:
            raise MachineError(f"the simulator's interpreter {self._python} cannot be run: {error.strerror}") from error

    def _receive_hello(self) -> dict[str, Any]:
        hello: dict[str, Any] = json.loads(self._receive(START_S))
        if hello["version"] != bridge.VERSION:
            raise self._failure(f"has version {hello['version']} of the protocol, not {bridge.VERSION}")
        return hello

    def _receive(self, timeout_s: float) -> bytes:
        """Wait at most `timeout_s` for the next message; a process that sends none is killed.

        Raises:
            MachineError: if the message says that something is missing.
            GmiError: if it is another error, or none comes.
        """
        self._socket.settimeout(timeout_s)
        try:
            data = self._socket.recv(bridge.MAX_BYTES)
        except TimeoutError:
            self._process.kill()
            raise self._failure(f"did not answer within {timeout_s:g} s and was killed") from None
        except ConnectionError:
            data = b""
        if not data:
            raise self._failure(self._end())
        if data.startswith(b'{"kind": "error"'):
            message = json.loads(data)
            raise self._failure(f"failed: {message['message']}", MachineError if message["missing"] else GmiError)
        return data

    def _end(self) -> str:
        """How the process ended."""
        try:
            code = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return "closed its socket without a message"
        return f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"

    def _failure(self, what: str, kind: type[GmiError] = GmiError) -> GmiError:
        """End the process. Returns an error that names it and shows the last lines of its output."""
        name = f"the Isaac Gym bridge (process {self._process.pid}, {self._python})"
        lines = self._last_lines()
        self.close()
        self._failed = kind(f"{name} {what}" + "".join(f"\n  | {line}" for line in lines))
        return self._failed

    def _last_lines(self) -> list[str]:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - LOG_BYTES))
        return self._log.read().decode(errors="replace").splitlines()[-LOG_LINES:]
