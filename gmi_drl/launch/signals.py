"""Ctrl-C, SIGTERM and a lost terminal: the first asks for an orderly end, the second ends at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from signal import SIG_IGN, Signals, getsignal, signal
from types import FrameType

from gmi_drl.process_signals import ENDING


class EndedAtOnce(SystemExit):
    """Raised, once, where the program stands when a signal ends it at once: with 128 + the first signal that came."""

    def __init__(self, signal: Signals) -> None:
        super().__init__(f"ended at once by {signal.name}")
        self.code = 128 + signal


class Stage(Enum):
    """What a signal does."""

    STARTING = auto()
    """It ends at once: nothing runs yet that could be stopped in order."""

    RUNNING = auto()
    """The first asks for an orderly end, the second ends at once."""

    ENDING = auto()
    """The first is noted: what runs is being ended, and nobody disturbs that."""

    ENDED = auto()
    """Nothing: how it ended is known."""


@dataclass
class StopRequest:
    """The signal that asked for the end, if any."""

    stage: Stage
    signal: Signals | None = None

    def bear(self) -> None:
        """Only note signals from now on, while what runs is being ended."""
        if self.stage is not Stage.ENDED:
            self.stage = Stage.ENDING

    def settle(self) -> None:
        """From now on signals change nothing: how things end is known."""
        self.stage = Stage.ENDED

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Do with a signal what the stage says."""
        if self.stage is Stage.ENDED:
            return
        is_first = self.signal is None
        self.signal = self.signal or Signals(number)
        if self.stage is Stage.STARTING or (self.stage is Stage.RUNNING and not is_first):
            self.stage = Stage.ENDING
            raise EndedAtOnce(self.signal)


@contextmanager
def stop_on_signals(stage: Stage = Stage.RUNNING) -> Iterator[StopRequest]:
    """Take SIGINT, SIGTERM and SIGHUP for the time of a `with` block, unless they are ignored (`nohup`)."""
    request = StopRequest(stage)
    taken = [number for number in ENDING if getsignal(number) is not SIG_IGN]
    before = {number: signal(number, request.hear) for number in taken}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal(number, handler)
