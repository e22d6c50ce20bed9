"""Ctrl-C, SIGTERM and a lost terminal: the first asks for an orderly end, the second ends at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, Signals, getsignal, signal
from types import FrameType


class SecondSignal(BaseException):
    """Raised, once, where the program stands when a second signal arrives. `signal` is the first."""

    def __init__(self, signal: Signals) -> None:
        super().__init__(f"ended at once, by a second signal after {signal.name}")
        self.signal = signal


@dataclass
class StopRequest:
    """The signal that asked for the end, if any."""

    signal: Signals | None = None
    is_settled: bool = False

    def settle(self) -> None:
        """From now on signals change nothing: how things end is known."""
        self.is_settled = True


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Take SIGINT, SIGTERM and SIGHUP for the time of a `with` block, unless they are ignored (`nohup`)."""
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if request.is_settled:
            return
        if request.signal is not None:
            request.settle()  # so that nothing disturbs those who end what there is
            raise SecondSignal(request.signal)
        request.signal = Signals(number)

    taken = [number for number in (SIGINT, SIGTERM, SIGHUP) if getsignal(number) is not SIG_IGN]
    before = {number: signal(number, handle) for number in taken}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal(number, handler)
