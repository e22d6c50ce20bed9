"""Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from signal import SIGINT, SIGTERM, Signals, signal
from types import FrameType


class SecondSignal(BaseException):
    """Raised where the program stands when a second signal arrives. Nothing is saved then."""


@dataclass
class StopRequest:
    """The signal that asked for the end, if any."""

    signal: Signals | None = None


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Take SIGINT and SIGTERM for the time of a `with` block."""
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if request.signal is not None:
            raise SecondSignal
        request.signal = Signals(number)

    before = {number: signal(number, handle) for number in (SIGINT, SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal(number, handler)
