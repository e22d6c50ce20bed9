"""The interface of a started GMI, on whatever host and however it was started."""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from gmi_drl.roles.launcher.resources import Resources

UNKNOWN = 256
"""The exit code of a process that was reaped by somebody else."""

LOST = 257
"""The exit code of a GMI whose node is lost."""

LOG_LINES, LAST_LINES = 5, 20  # lines of a log in a message: of one that stays, and of one that does not


class GMIHandle(Protocol):
    """A started GMI: exchanges messages with it, and ends it with its process group."""

    @property
    def pid(self) -> int:
        """The process id."""

    @property
    def where(self) -> str:
        """A text to follow the process id in a message: empty, or `, node b` with what is known about the node."""

    @property
    def log(self) -> Path:
        """The file of its output."""

    @property
    def connection_fd(self) -> int:
        """Readable when a message has come, or the connection has ended."""

    @property
    def exit_fd(self) -> int:
        """Readable when the GMI has ended."""

    def send(self, message: bytes) -> None:
        """Send a message without waiting. Does nothing if the GMI has ended."""

    def receive(self) -> bytes | None:
        """The next message; empty if the connection has ended, None if nothing has come."""

    def exit_code(self, wait_s: float) -> int | None:
        """The exit code as in `subprocess`, or `UNKNOWN` or `LOST`; None if the GMI still runs after `wait_s`."""

    def ask_to_end(self) -> None:
        """Make the GMI end, without waiting: at once, or after its work in flight on the GPU if it drains."""

    def show_stacks(self) -> None:
        """Make the GMI write the stacks of all its threads into its log, without waiting."""

    def end(self) -> None:
        """Kill the GMI, if it still runs, with its process group. May be called twice."""

    def close(self) -> None:
        """Close the connection to a GMI that has ended."""

    def last_words(self, most: int) -> list[str]:
        """At most `most` last lines of the log; none if it cannot be read."""


class Starter(Protocol):
    """Starts GMIs."""

    def __call__(
        self, order: Mapping[str, Any], environment: Mapping[str, str], log: Path, resources: Resources
    ) -> GMIHandle:
        """Start a GMI.

        Args:
            order: What `roles.main` reads, without the connection, the resources and the parent's process id.
            environment: All environment variables of the process.
            log: The file for its output.
            resources: What it shares with other GMIs: descriptors of this process, open during this call.
        """


def how_it_ended(code: int | None) -> str:
    """An exit code in words: `exited with code 1`, `was killed by SIGKILL`, or that the process still runs (None)."""
    if code is None:
        return "has closed its connection but still runs"
    if code == UNKNOWN:
        return "has ended with an unknown exit code (SIGCHLD is ignored here)"
    if code == LOST:
        return "was lost with its node"
    if code >= 0:
        return f"exited with code {code}"
    more = " (by a user, or for lack of memory)" if -code == signal.SIGKILL else ""
    return f"was killed by {_name(-code)}{more}"


def _name(number: int) -> str:
    """The name of a signal. Of the real-time signals only the first and the last have one in Python."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number} (SIGRTMIN+{number - signal.SIGRTMIN})"


def log_of(gmi: GMIHandle, message: str, *, stays: bool) -> str:
    """A text to follow a message: the path of a GMI's log and its last lines, without those that the message repeats.

    Args:
        gmi: The GMI.
        message: The message.
        stays: Whether the log stays. If not, more lines are quoted, and no path.
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
    """Whether a line of a log is a line of the message; the log may have the error's module before it."""
    return logged == said or logged.endswith(f".{said}")
