"""How long a process has waited, and whether another process is stopped."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

SLOW_S = 10.0
"""A wait longer than this is logged, once."""

_LOG = logging.getLogger(__name__)
_LOOK_S = 1.0  # the most that one look adds: this process did not run in a longer pause


class WaitClock:
    """Counts the seconds that this process has waited while it was running, not those during which it was stopped.

    If all ranks were stopped for long, the first to continue would otherwise blame those that are about to.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._total_s = 0.0
        self._has_warned = False
        self._last = time.perf_counter()
        self._progress: object = None

    def look(self) -> float:
        """Add the time since the last call, at most a second, and return the seconds counted so far. Call it often."""
        now = time.perf_counter()
        passed_s = min(now - self._last, _LOOK_S)
        self.seconds += passed_s
        self._total_s += passed_s
        self._last = now
        return self.seconds

    def restart_on_change(self, progress: object) -> bool:
        """Start again from 0 if `progress` differs from its value at the last call: a slow process is not a silent one.

        Args:
            progress: Any value that changes while the awaited process shows that it is alive; not None.

        Returns:
            Whether it started again.
        """
        is_new = self._progress is not None and progress != self._progress
        self._progress = progress
        if is_new:
            self.seconds = 0.0
        return is_new

    def warn_if_slow(self, who: Callable[[], str]) -> None:
        """Log, once, whom this process waits for, if the wait takes long."""
        if self._total_s > SLOW_S and not self._has_warned:
            self._has_warned = True
            _LOG.warning("%s, for %.0f s so far", who(), self._total_s)


def is_stopped(pid: int) -> bool:
    """Whether a process of this host is stopped, as by SIGSTOP or a debugger."""
    with suppress(psutil.Error):
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return False
