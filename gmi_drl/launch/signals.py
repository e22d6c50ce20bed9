"""Handles Ctrl-C, SIGTERM and SIGHUP: the first signal requests an orderly stop, the second ends at once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from signal import SIG_IGN, SIGTERM, Signals, getsignal, signal
from types import FrameType

from gmi_drl.processes.signals import ENDING

TRIAL_VARIABLE = "GMI_DRL_TRIAL"
"""Set in the trials of a sweep. Who sends SIGTERM to all processes at once makes the sweep send it to its trials, too:
they are asked twice for the same. The sweep kills those that do not end."""


class EndedAtOnce(SystemExit):
    """Raised to end the program: by the handler of a signal, or by a plan whose training a signal has stopped.

    Its code is 128 + the first signal.
    """

    def __init__(self, signal: Signals) -> None:
        super().__init__(f"ended at once by {signal.name}")
        self.code = 128 + signal


class Stage(Enum):
    """What a signal does at present."""

    STARTING = auto()
    """The first ends the program at once: nothing runs yet that could be stopped in order."""

    RUNNING = auto()
    """The first requests an orderly stop, the second ends the program at once."""

    ENDING = auto()
    """It is only stored: the processes are being ended."""

    ENDED = auto()
    """It is ignored: the outcome is known."""


@dataclass
class StopRequest:
    """The first signal that has come, if any, and the stage that decides what the next one does."""

    stage: Stage
    signal: Signals | None = None
    is_of_trial: bool = False
    """Whether a second SIGTERM asks for the same as the first (`TRIAL_VARIABLE`)."""

    def only_store(self) -> None:
        """Only store signals from now on, while the processes are ended."""
        if self.stage is not Stage.ENDED:
            self.stage = Stage.ENDING

    def settle(self) -> None:
        """Ignore signals from now on: the outcome is known."""
        self.stage = Stage.ENDED

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signals."""
        if self.stage is Stage.ENDED:
            return
        is_first = self.signal is None or (self.is_of_trial and number == SIGTERM)
        self.signal = self.signal or Signals(number)
        if self.stage is Stage.STARTING or (self.stage is Stage.RUNNING and not is_first):
            self.stage = Stage.ENDING
            raise EndedAtOnce(self.signal)


@contextmanager
def stop_on_signals(stage: Stage = Stage.RUNNING) -> Iterator[StopRequest]:
    """Handle SIGINT, SIGTERM and SIGHUP for the time of a `with` block, unless they are ignored (`nohup`)."""
    request = StopRequest(stage, is_of_trial=TRIAL_VARIABLE in os.environ)
    taken = [number for number in ENDING if getsignal(number) is not SIG_IGN]
    before = {number: signal(number, request.handle) for number in taken}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal(number, handler)
