"""What those who supervise GMIs need of one that was started, wherever and however it runs."""

from pathlib import Path
from typing import Protocol


class StartedGMI(Protocol):
    """A GMI that runs: it is listened to, and ended with all that it has started."""

    @property
    def pid(self) -> int:
        """Its process."""

    @property
    def log(self) -> Path:
        """What it prints."""

    @property
    def line_fd(self) -> int:
        """Readable when a message has come, or the line has ended."""

    @property
    def exit_fd(self) -> int:
        """Readable when the GMI has ended."""

    def say(self, message: bytes) -> None:
        """Send a message, without waiting; one that has ended does not hear it."""

    def receive(self) -> bytes | None:
        """One message; empty when the line has ended, None when nothing has come."""

    def exit_code(self, wait_s: float) -> int | None:
        """As `subprocess` has it, negative for a signal, or `UNKNOWN`; None if it still runs after `wait_s`."""

    def ask_to_end(self) -> None:
        """Let it end by itself."""

    def end(self) -> None:
        """End it, if it still runs, and all that it has started. May be called twice."""

    def close(self) -> None:
        """Close the line to a GMI that has ended."""

    def last_words(self) -> str:
        """The place and the end of its log, to come after a message."""
