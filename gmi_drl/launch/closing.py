"""How GMIs that have said how it went close their environments, before their processes are ended."""

import time
import warnings
from collections.abc import Mapping
from select import POLLIN, poll

from gmi_drl.errors import GmiWarning
from gmi_drl.launch.started import StartedGMI, how_it_ended
from gmi_drl.process_names import name_of
from gmi_drl.roles.line import decode
from gmi_drl.roles.words import Closed, said_by_gmi
from gmi_drl.task_names import CLOSE_S

EXIT_S = 1.0  # from the end of a line until its process must have ended, or nothing is known of how


class Closing:
    """GMIs that have said `Done` or `Failed` and close what they have made.

    Warns of each that does not close it, that fails to, or that is killed meanwhile. A node may have said `Failed` for
    a GMI, which goes on: its line has ended then, and it is asked to end.

    Args:
        task: What they have made, to be named; None if that is not known.
    """

    def __init__(self, task: str | None) -> None:
        self._task = task or "its environments"
        self._closed, self._told = set[int](), set[str]()

    def warn(self, number: int, message: str) -> None:
        """Tell people of something that ends nothing, once: several GMIs may say the same."""
        if message not in self._told:
            self._told.add(message)
            _warn(number, message)

    def heard(self, number: int, word: Closed) -> None:
        """A GMI has closed all."""
        self._end(number, word.complaint)

    def wait(self, closing: Mapping[int, StartedGMI]) -> None:
        """Wait for `CLOSE_S` at most until all of these GMIs, which are given by their numbers, have closed all."""
        deadline = time.monotonic() + CLOSE_S
        for number, gmi in closing.items():
            if number not in self._closed:
                self._end(number, _complaint(gmi, deadline, self._task))

    def _end(self, number: int, complaint: str) -> None:
        self._closed.add(number)
        if complaint:
            _warn(number, complaint)


def _warn(number: int, message: str) -> None:
    warnings.warn(f"{name_of(number)}: {message}", GmiWarning, stacklevel=1)


def _complaint(gmi: StartedGMI, deadline: float, task: str) -> str:
    """What went wrong; empty if nothing did."""
    event = poll()
    event.register(gmi.line_fd, POLLIN)
    while event.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
        data = gmi.receive()
        if data == b"":  # some simulators end their process when they are closed
            code = gmi.exit_code(EXIT_S)
            if code is None:
                gmi.ask_to_end()
            was_killed = code is not None and code < 0
            return f"its process {how_it_ended(code)} while it closed {task}" if was_killed else ""
        if data is not None and isinstance(word := said_by_gmi(decode(data)), Closed):
            return word.complaint
    return f"it has not closed {task} within {CLOSE_S:g} s: its process is killed"
