"""Ctrl-C, SIGTERM and a lost terminal: the first asks for an orderly end, the second ends at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, Signals, getsignal, signal
from types import FrameType


class SecondSignal(BaseException):
    """Raised where the program stands when a second signal arrives. Nothing is saved then. `signal` is the first."""

    def __init__(self, signal: Signals) -> None:
        self.signal = signal


@dataclass
class StopRequest:
    """The signal that asked for the end, if any."""

    signal: Signals | None = None


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Take SIGINT, SIGTERM and SIGHUP for the time of a `with` block, unless they are ignored (`nohup`)."""
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if request.signal is not None:
            raise SecondSignal(request.signal)
        request.signal = Signals(number)

    taken = [number for number in (SIGINT, SIGTERM, SIGHUP) if getsignal(number) is not SIG_IGN]
    before = {number: signal(number, handle) for number in taken}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal(number, handler)
