"""The process in which Isaac Gym runs, seen from the GMI that started it."""

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
"""Until the simulator must have made its worlds, and later begun all episodes anew."""

STEP_S = 60.0
"""Until a step must be done."""

GRACE_S = 3.0  # between closing the line and killing
LOG_LINES = 20
LOG_BYTES = 8192


class BridgeProcess:
    """Runs `isaacgym_bridge.py` and asks it for steps. Dies with this process, and leaves nothing behind.

    Attributes:
        hello: The sizes of the task and the bounds of its actions (see `Bridge.hello`).
        arrays: Arrays in shared memory by name (`isaacgym_bridge.fields`); they change with every `ask`.

    Raises:
        MachineError: The interpreter cannot be run, or lacks Isaac Gym.
        GmiError: The task could not be made in time.
    """

    def __init__(self, python: Path, order: dict[str, Any]) -> None:
        self._python = python
        self._failed: GmiError | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        memory = os.memfd_create("gmi-drl-isaacgym", os.MFD_CLOEXEC)
        try:
            with theirs:
                self._process = self._start(order, theirs.fileno(), memory)
            self.hello = self._greeting()
            self.arrays = bridge.views(mmap.mmap(memory, 0), **self.hello["sizes"])
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory)

    def ask(self, word: bytes, deadline_s: float) -> None:
        """Have RESET or STEP done.

        Raises:
            GmiError: The simulator failed, died or missed the deadline. Its process is ended, and whatever else is
                asked of it raises the same error.
        """
        if self._failed is not None:
            raise self._failed
        with suppress(OSError):  # it has ended, and may have said why
            self._line.send(word)
        if self._answer(deadline_s) != bridge.DONE:
            raise self._failure("answered what nobody had asked")

    def close(self) -> None:
        """End the process: by closing its line, or by force where that is not enough."""
        self.arrays = {}
        self._line.close()
        if (process := getattr(self, "_process", None)) is not None:
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()

    def _start(self, order: dict[str, Any], line: int, memory: int) -> "subprocess.Popen[bytes]":
        order = order | {"version": bridge.VERSION, "line": line, "memory": memory, "parent": os.getpid()}
        command = [str(self._python), "-u", bridge.__file__, json.dumps(order)]
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=[line, memory],
            )
        except OSError as error:
            raise MachineError(f"the simulator's interpreter {self._python} cannot be run: {error.strerror}") from error

    def _greeting(self) -> dict[str, Any]:
        hello: dict[str, Any] = json.loads(self._answer(START_S))
        if hello["version"] != bridge.VERSION:
            raise self._failure(f"speaks version {hello['version']} of its protocol, not {bridge.VERSION}")
        return hello

    def _answer(self, deadline_s: float) -> bytes:
        """The next message, which is no error."""
        self._line.settimeout(deadline_s)
        try:
            data = self._line.recv(bridge.MAX_BYTES)
        except TimeoutError:
            self._process.kill()
            raise self._failure(f"has not answered within {deadline_s:g} s and was killed") from None
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
            return "closed its line without a word"
        return f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"

    def _failure(self, what: str, kind: type[GmiError] = GmiError) -> GmiError:
        """An error that names the process and shows its last lines. The process is ended."""
        name = f"the Isaac Gym bridge (process {self._process.pid}, {self._python})"
        lines = self._last_lines()
        self.close()
        self._failed = kind(f"{name} {what}" + "".join(f"\n  | {line}" for line in lines))
        return self._failed

    def _last_lines(self) -> list[str]:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - LOG_BYTES))
        return self._log.read().decode(errors="replace").splitlines()[-LOG_LINES:]
