"""Waits until GMIs that are done or have failed have closed their environments."""

import time
import warnings
from collections.abc import Mapping
from select import POLLIN, poll

from gmi_drl.config.task_names import CLOSE_S
from gmi_drl.errors import GmiWarning
from gmi_drl.launch.processes.gmi_handle import GMIHandle, how_it_ended
from gmi_drl.roles.launcher.connection import decode
from gmi_drl.roles.launcher.protocol import Closed, Warned, parse_message_to_launcher
from gmi_drl.run.process_names import name_of

EXIT_S = 1.0  # deadline for the exit code of a process whose connection has ended


class Closing:
    """Waits for GMIs that have sent `Done` or `Failed` and now close their environments.

    Warns about each that does not, or fails to, or is killed meanwhile. A node may have sent `Failed` for a GMI that
    still runs: its connection has ended then, and it is made to end.

    Args:
        task: The task, for messages; None if unknown.
    """

    def __init__(self, task: str | None) -> None:
        self._task = task or "its environments"
        self._closed, self._warned = set[int](), set[str]()

    def warn(self, number: int, message: str) -> None:
        """Warn, once for each message: several GMIs may send the same."""
        if message not in self._warned:
            self._warned.add(message)
            _warn(number, message)

    def add_closed(self, number: int, word: Closed) -> None:
        """A GMI has closed all."""
        self._end(number, word.complaint)

    def wait(self, closing: Mapping[int, GMIHandle], most_s: float | None = None) -> None:
        """Wait until all of these GMIs, given by their numbers, have closed their environments.

        Args:
            closing: The GMIs.
            most_s: The most seconds of waiting; None: `CLOSE_S`.
        """
        most_s = CLOSE_S if most_s is None else most_s
        deadline = time.monotonic() + most_s
        for number, gmi in closing.items():
            if number not in self._closed:
                self._end(number, self._complaint(number, gmi, deadline, most_s))

    def _complaint(self, number: int, gmi: GMIHandle, deadline: float, most_s: float) -> str:
        """Wait for a GMI. Returns what went wrong, empty if nothing did. Passes the GMI's warnings on."""
        event = poll()
        event.register(gmi.connection_fd, POLLIN)
        while event.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
            data = gmi.receive()
            if data == b"":  # some simulators end the process when they are closed
                code = gmi.exit_code(EXIT_S)
                if code is None:
                    gmi.ask_to_end()
                was_killed = code is not None and code < 0
                return f"its process {how_it_ended(code)} while it closed {self._task}" if was_killed else ""
            if data is not None and (complaint := self._handled(number, data)) is not None:
                return complaint
        return f"it has not closed {self._task} within {most_s:g} s: its process is killed"

    def _handled(self, number: int, data: bytes) -> str | None:
        """The complaint of a GMI that has closed all; None if it is still closing. Other messages are ignored."""
        try:
            word = parse_message_to_launcher(decode(data))
        except ValueError as error:
            self.warn(number, f"it has sent a malformed message while it closed {self._task}: {error}")
            return None
        if isinstance(word, Warned):
            self.warn(number, word.message)
        return word.complaint if isinstance(word, Closed) else None

    def _end(self, number: int, complaint: str) -> None:
        self._closed.add(number)
        if complaint:
            _warn(number, complaint)


def _warn(number: int, message: str) -> None:
    warnings.warn(f"{name_of(number)}: {message}", GmiWarning, stacklevel=1)
