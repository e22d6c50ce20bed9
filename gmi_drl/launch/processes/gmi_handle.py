"""What those who supervise GMIs need of one that was started, wherever and however it runs."""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from gmi_drl.roles.launcher.resources import Resources

UNKNOWN = 256
"""An exit code that nobody can tell any more."""

LOST = 257
"""That of a GMI whose node is lost."""

LOG_LINES, LAST_LINES = 5, 20  # that are told of a log that stays, and of one that does not


class GMIHandle(Protocol):
    """A GMI that runs: it is listened to, and ended with all that it has started."""

    @property
    def pid(self) -> int:
        """Its process."""

    @property
    def where(self) -> str:
        """To come behind its process in an error: empty, or `, node b`, and what is known of that."""

    @property
    def log(self) -> Path:
        """What it prints."""

    @property
    def line_fd(self) -> int:
        """Readable when a message has come, or the line has ended."""

    @property
    def exit_fd(self) -> int:
        """Readable when the GMI has ended."""

    def send(self, message: bytes) -> None:
        """Send a message, without waiting; one that has ended does not hear it."""

    def receive(self) -> bytes | None:
        """One message; empty when the line has ended, None when nothing has come."""

    def exit_code(self, wait_s: float) -> int | None:
        """As `subprocess` has it, negative for a signal, or `UNKNOWN`; None if it still runs after `wait_s`."""

    def ask_to_end(self) -> None:
        """Have it end, without waiting: at once, or, if it drains, when its GPU has done what it was told."""

    def end(self) -> None:
        """End it, if it still runs, and all that it has started. May be called twice."""

    def close(self) -> None:
        """Close the line to a GMI that has ended."""

    def last_words(self, most: int) -> list[str]:
        """So many lines of its log at most, the last ones; none if it cannot be read."""


class Starter(Protocol):
    """A way to start GMIs."""

    def __call__(
        self, order: Mapping[str, Any], environment: Mapping[str, str], log: Path, resources: Resources
    ) -> GMIHandle:
        """Start one.

        Args:
            order: What `roles.main` reads, but for its line, the resources and who its parent is.
            environment: All variables of its process, which are complete before torch is imported there.
            log: Takes what it prints.
            resources: What it shares with other GMIs: descriptors of this process, open during this call.
        """


def how_it_ended(code: int | None) -> str:
    """`exited with code 1`, `was killed by SIGKILL`, or that it still runs, for an `exit_code`."""
    if code is None:
        return "has closed its line but still runs"
    if code == UNKNOWN:
        return "has ended, how is not known (SIGCHLD is ignored here)"
    if code == LOST:
        return "was lost with its node"
    if code >= 0:
        return f"exited with code {code}"
    more = " (by hand, or for want of memory)" if -code == signal.SIGKILL else ""
    return f"was killed by {_name(-code)}{more}"


def _name(number: int) -> str:
    """`SIGTERM`; of real-time signals only the first and the last have names of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number} (SIGRTMIN+{number - signal.SIGRTMIN})"


def log_of(gmi: GMIHandle, message: str, *, stays: bool) -> str:
    """To come after a message: where its log is and how it ends; of one that does not stay a longer end alone.

    What the log ends with and the message has said is not said again.
    """
    said = [line for line in message.splitlines() if line]
    words = gmi.last_words(LOG_LINES if stays else LAST_LINES)
    while words and any(_is_same(words[-1], line) for line in said):
        words = words[:-1]
    lines = "".join(f"\n  | {line}" for line in words)
    if stays:
        return f"\n  its log is {gmi.log}{lines}"
    return f"\n  its log ends with{lines}" if lines else ""


def _is_same(logged: str, said: str) -> bool:
    """Whether a line of a log is one of a message: a log names an error's module, too."""
    return logged == said or logged.endswith(f".{said}")
