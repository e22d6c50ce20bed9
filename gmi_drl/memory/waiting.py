"""How long a process has waited."""

import time

_LOOK_S = 1.0  # the most that one look adds to the time waited: what is longer, this process was not running for


class Waiting:
    """How long this process has waited: the time in which it ran and looked, not that in which it stood still.

    When all ranks were stopped for long, the first to go on would otherwise blame those that are about to.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last = time.perf_counter()

    def look(self) -> float:
        """The seconds that count so far; to be asked for often."""
        now = time.perf_counter()
        self.seconds += min(now - self._last, _LOOK_S)
        self._last = now
        return self.seconds
