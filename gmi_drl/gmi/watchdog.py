"""A keeper: a process beside the launcher that undoes what was done to devices, however the launcher ends.

It sees the launcher's death by a pidfd, as forks of the launcher may hold the line between the two open, and signals of
a terminal do not reach it. Nothing may be started or changed before the keeper knows how to undo it.
"""

import faulthandler
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from select import POLLIN, poll
from typing import Any

from gmi_drl.errors import MachineError
from gmi_drl.gmi.claims import claims_folder
from gmi_drl.process_signals import ENDING, held_back
from gmi_drl.registry import class_at

Undo = Callable[[Mapping[str, Any]], list[str]]
"""Undoes what notes say and tells what it could not undo, each with a remedy.

All its waits have deadlines, and it may be called again for what was undone already, in part or in whole.
"""

ANSWER_S = 60.0
"""Until a keeper must have answered: the first time it imports what undoes."""

SLACK_S = 10.0
MOST_BYTES = 2**16
PROGRAM = "from gmi_drl.gmi.watchdog import main; main()"


class Watchdog:
    """The launcher's end: notes for the keeper, and the end of both.

    Args:
        undo: `module:function`, an `Undo`.
        log: Takes what goes wrong in the keeper. It should not be in a folder that `undo` empties.
        undo_s: Until `undo` must have returned; then the keeper leaves it and tells where it stood.
        holds: Locks (descriptors) that are held until the keeper ends, though the launcher is dead.
        notes: Those that it knows from its birth. Without any nothing is undone.
    """

    def __init__(
        self, undo: str, log: Path, *, undo_s: float, holds: Sequence[int] = (), notes: Mapping[str, Any] | None = None
    ) -> None:
        self.notes: dict[str, Any] = dict(notes or {})
        self._undo, self._undo_s, self._log, self._asked = undo, undo_s, log, 0
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        launcher = os.pidfd_open(os.getpid())
        try:
            with theirs, log.open("ab") as errors, held_back():
                arguments = [undo, str(theirs.fileno()), str(launcher), str(undo_s), json.dumps(self.notes)]
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", PROGRAM, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env={**os.environ, "GMI_DRL_CLAIMS": str(claims_folder())},  # it leaves this folder
                    pass_fds=[theirs.fileno(), launcher, *holds],
                    start_new_session=True,
                )
        finally:
            os.close(launcher)
        self.pid = self._process.pid
        self._exit = os.pidfd_open(self.pid)

    def note(self, name: str, value: Any) -> None:
        """Have the keeper know something (JSON) that `undo` needs. It replaces a note of that name.

        Raises:
            MachineError: if the keeper has ended or does not answer. Nothing may be started then.
        """
        self.notes[name] = value
        self._require({"name": name, "value": value})

    def prove_ready(self) -> None:
        """See that it knows the notes of its birth.

        Raises:
            MachineError: as `note`.
        """
        self._require({})

    def _require(self, message: dict[str, Any]) -> None:
        if self._ask(message, ANSWER_S) is None:
            said = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
            text = f"the keeper (process {self.pid}) has ended or does not answer ({said or 'without a word'})"
            raise MachineError(f"{text}: without one nothing would be undone if this process were killed")

    def close(self) -> list[str]:
        """Undo what the notes say, here if the keeper is no more; tells what could not be undone."""
        answer = self._ask({"undo": True}, self._undo_s + SLACK_S)
        self._process.kill()
        self._process.wait()
        self._line.close()
        os.close(self._exit)
        if answer is not None:
            left: list[str] = answer["left"]
            return left
        with _undisturbed():  # nobody else is left who would go on with it
            return load(self._undo)(self.notes) if self.notes else []

    def _ask(self, message: dict[str, Any], deadline_s: float) -> dict[str, Any] | None:
        """What the keeper answers; None if it has ended or does not answer in time."""
        self._asked += 1
        events = poll()
        events.register(self._line, POLLIN)
        events.register(self._exit, POLLIN)  # a fork may hold its end of the line open
        try:
            self._line.settimeout(deadline_s)
            self._line.send(json.dumps({"number": self._asked, **message}).encode())
            while self._line.fileno() in dict(events.poll(1000 * deadline_s)):
                data = self._line.recv(MOST_BYTES)
                if not data:
                    return None
                answer: dict[str, Any] = json.loads(data)
                if answer["number"] == self._asked:  # not one that a signal has kept us from hearing
                    return answer
        except OSError:
            pass
        return None


def load(undo: str) -> Undo:
    """The function at `module:function`."""
    found: Undo = class_at(undo)
    return found


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off what signals ask for to the end of a `with` block."""
    if threading.current_thread() is not threading.main_thread():  # which alone hears them
        yield
        return
    heard: dict[int, None] = {}
    before = {number: signal.signal(number, lambda number, frame: heard.setdefault(number)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in heard:
            signal.raise_signal(late)


def main() -> None:
    """Take notes until the launcher says so or is no more, then undo what they say."""
    for ignored in ENDING:
        signal.signal(ignored, signal.SIG_IGN)  # they are for the launcher, which may take its time
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    where, descriptor, launcher, undo_s, first = sys.argv[1:]
    undo, line, notes = load(where), socket.socket(fileno=int(descriptor)), dict[str, Any](json.loads(first))
    os.chdir("/")
    number = _take_notes(line, int(launcher), notes)
    faulthandler.dump_traceback_later(float(undo_s), exit=True)
    left = undo(notes) if notes else []
    for text in left:
        print(text, file=sys.stderr, flush=True)
    _answer(line, {"number": number, "left": left})


def _take_notes(line: socket.socket, launcher: int, notes: dict[str, Any]) -> int:
    """Until it is time to undo; the number of the message that says so, 0 if the launcher is no more."""
    events = poll()
    events.register(line, POLLIN)
    events.register(launcher, POLLIN)
    while line.fileno() in dict(events.poll()):  # only when all that was said is read does the launcher's end count
        try:
            message = json.loads(line.recv(MOST_BYTES) or b"{}")
        except OSError:
            break
        if "undo" in message or not message:
            return int(message.get("number", 0))
        if "name" in message:
            notes[message["name"]] = message["value"]
        _answer(line, {"number": message["number"]})
    return 0


def _answer(line: socket.socket, message: dict[str, Any]) -> None:
    with suppress(OSError):  # the launcher is no more
        line.send(json.dumps(message).encode())
