"""A watchdog: a process beside the launcher that undoes changes to devices, however the launcher ends.

It watches the launcher by a pidfd, since forks of the launcher may keep their connection open. Signals of a terminal do
not reach it. Nothing may be started or changed before the watchdog has noted how to undo it.
"""

import faulthandler
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from select import POLLIN, poll
from typing import Any

from gmi_drl.errors import MachineError
from gmi_drl.gmi.claims import claims_folder
from gmi_drl.processes.cleanup import REMEDY, start_cleanup_process
from gmi_drl.processes.signals import ENDING, handlers_delayed
from gmi_drl.registry import class_at

Undo = Callable[[Mapping[str, Any]], list[str]]
"""Undoes what notes say. Returns what it could not undo, each in a sentence with a remedy.

All its waits have deadlines. It may be called again for what was undone already, in part or completely.
"""

ANSWER_S = 60.0
"""Deadline of the watchdog's answers: before the first one it imports the `Undo`."""

SLACK_S = 10.0
MOST_BYTES = 2**16
PROGRAM = "from gmi_drl.gmi.launcher_watchdog import main; main()"


class Watchdog:
    """The launcher's end: starts the watchdog process and sends it notes.

    Args:
        undo: `module:function`, an `Undo`. It is not called if there are no notes.
        log: The file for the watchdog's errors, outside of any folder that `undo` empties.
        undo_s: Deadline of `undo`; after it the watchdog writes a traceback into the log and exits.
        holds: Descriptors of locks, which the watchdog holds until it ends, even if the launcher is dead.
        notes: The first notes.

    Raises:
        MachineError: if it cannot be started. Then nothing is left of it but its log.
    """

    def __init__(
        self, undo: str, log: Path, *, undo_s: float, holds: Sequence[int] = (), notes: Mapping[str, Any] | None = None
    ) -> None:
        self.notes: dict[str, Any] = dict(notes or {})
        self._undo, self._undo_s, self._log, self._asked = undo, undo_s, log, 0
        try:
            self._start(holds)
        except OSError as error:
            raise MachineError(f"{sys.executable} cannot be started as a watchdog ({error}): {REMEDY}") from None

    def _start(self, holds: Sequence[int]) -> None:
        with self._log.open("ab") as errors:
            self._process, self._socket = start_cleanup_process(
                [sys.executable, "-P", "-c", PROGRAM, self._undo, str(self._undo_s), json.dumps(self.notes)],
                errors=errors,
                holds=holds,
                env={**os.environ, "GMI_DRL_CLAIMS": str(claims_folder())},  # it leaves this folder
            )
        self.pid = self._process.pid
        try:
            self._exit = os.pidfd_open(self.pid)
        except OSError:
            self._end()
            raise

    def note(self, name: str, value: Any) -> None:
        """Send the watchdog a note (JSON) for `undo`. It replaces the note of that name.

        Raises:
            MachineError: if the watchdog has ended or does not answer. Nothing may be started then.
        """
        self.notes[name] = value
        self._require({"name": name, "value": value})

    def prove_ready(self) -> None:
        """Wait until the watchdog answers.

        Raises:
            MachineError: as for `note`.
        """
        self._require({})

    def _require(self, message: dict[str, Any]) -> None:
        if self._ask(message, ANSWER_S) is None:
            said = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
            text = f"the watchdog (process {self.pid}) has ended or does not answer ({said or 'its log is empty'})"
            raise MachineError(f"{text}: without it nothing would be undone if this process were killed")

    def close(self) -> list[str]:
        """Undo what the notes say, in this process if the watchdog has died. Returns what could not be undone."""
        answer = self._ask({"undo": True}, self._undo_s + SLACK_S)
        self._end()
        os.close(self._exit)
        if answer is not None:
            left: list[str] = answer["left"]
            return left
        with handlers_delayed():  # if this process is cut short, too, nobody undoes the rest
            return load(self._undo)(self.notes) if self.notes else []

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._socket.close()

    def _ask(self, message: dict[str, Any], deadline_s: float) -> dict[str, Any] | None:
        """Send a message and return the answer; None if the watchdog has ended or does not answer in time."""
        self._asked += 1
        events = poll()
        events.register(self._socket, POLLIN)
        events.register(self._exit, POLLIN)  # a fork may hold its end of the connection open
        try:
            self._socket.settimeout(deadline_s)
            self._socket.send(json.dumps({"number": self._asked, **message}).encode())
            while self._socket.fileno() in dict(events.poll(1000 * deadline_s)):
                data = self._socket.recv(MOST_BYTES)
                if not data:
                    return None
                answer: dict[str, Any] = json.loads(data)
                if answer["number"] == self._asked:  # not a late answer to an earlier message
                    return answer
        except OSError:
            pass
        return None


def load(undo: str) -> Undo:
    """The function at `module:function`."""
    found: Undo = class_at(undo)
    return found


def main() -> None:
    """The watchdog process: take notes until the launcher closes or dies, then undo what they say."""
    for ignored in ENDING:
        signal.signal(ignored, signal.SIG_IGN)  # only the launcher reacts to them, and may take its time
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    where, undo_s, first, launcher = sys.argv[1:]
    undo, connection, notes = load(where), socket.socket(fileno=sys.stdin.fileno()), dict[str, Any](json.loads(first))
    os.chdir("/")
    number = _take_notes(connection, int(launcher), notes)
    faulthandler.dump_traceback_later(float(undo_s), exit=True)
    left = undo(notes) if notes else []
    for text in left:
        print(text, file=sys.stderr, flush=True)
    _answer(connection, {"number": number, "left": left})


def _take_notes(connection: socket.socket, launcher: int, notes: dict[str, Any]) -> int:
    """Take notes until it is time to undo. Returns the number of the message that says so, 0 if the launcher died."""
    events = poll()
    events.register(connection, POLLIN)
    events.register(launcher, POLLIN)
    while connection.fileno() in dict(events.poll()):  # all messages are read before the launcher's death counts
        try:
            message = json.loads(connection.recv(MOST_BYTES) or b"{}")
        except OSError:
            break
        if "undo" in message or not message:
            return int(message.get("number", 0))
        if "name" in message:
            notes[message["name"]] = message["value"]
        _answer(connection, {"number": message["number"]})
    return 0


def _answer(connection: socket.socket, message: dict[str, Any]) -> None:
    with suppress(OSError):  # the launcher is dead
        connection.send(json.dumps(message).encode())
