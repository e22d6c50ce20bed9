"""Finds processes that a signal has stopped (SIGSTOP) and that stay so: perhaps no other GMI waits for them."""

import time
from collections.abc import Mapping
from pathlib import Path

from gmi_drl.comm.memory.wait_clock import WaitClock

LOOK_S = 1.0
STOPPED = "T"


class Stopped:
    """Counts for how long processes have been stopped. Time in which this process was stopped itself does not count."""

    def __init__(self) -> None:
        self._waiting = dict[int, WaitClock]()
        self._next = 0.0

    def longer_than(self, seconds: float, pids: Mapping[int, int]) -> int | None:
        """A number whose process has been stopped for longer than that; None without one, and between two looks.

        Args:
            seconds: The bound.
            pids: Of the processes, by their numbers.
        """
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + LOOK_S
        stopped = {number for number, pid in pids.items() if is_stopped(pid)}
        self._waiting = {number: self._waiting.get(number) or WaitClock() for number in stopped}
        return next((number for number, clock in self._waiting.items() if clock.look() > seconds), None)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped; False if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == STOPPED
    except OSError:
        return False
