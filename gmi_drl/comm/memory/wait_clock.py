"""How long a process has waited, and whether another stands still."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

SLOW_S = 10.0
"""A wait that lasts so long is told in the log of the process, once."""

_LOG = logging.getLogger(__name__)
_LOOK_S = 1.0  # the most that one look adds to the time waited: what is longer, this process was not running for


class WaitClock:
    """How long this process has waited: the time in which it ran and looked, not that in which it stood still.

    When all ranks were stopped for long, the first to go on would otherwise blame those that are about to.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._in_all_s = 0.0
        self._is_told = False
        self._last = time.perf_counter()
        self._news: object = None

    def look(self) -> float:
        """The seconds that count so far; to be asked for often."""
        now = time.perf_counter()
        passed_s = min(now - self._last, _LOOK_S)
        self.seconds += passed_s
        self._in_all_s += passed_s
        self._last = now
        return self.seconds

    def restart_on_change(self, news: object) -> bool:
        """Begin anew if this differs from what it was at the last call: who is slow is not silent.

        Args:
            news: Anything that changes while who is waited for is not silent; not None.

        Returns:
            Whether it begins anew.
        """
        is_new = self._news is not None and news != self._news
        self._news = news
        if is_new:
            self.seconds = 0.0
        return is_new

    def warn_if_slow(self, who: Callable[[], str]) -> None:
        """Tell for whom this process waits, if that takes long: who is slow is waited for, but not in silence."""
        if self._in_all_s > SLOW_S and not self._is_told:
            self._is_told = True
            _LOG.warning("%s, for %.0f s so far", who(), self._in_all_s)


def is_stopped(pid: int) -> bool:
    """Whether a process of this host was stopped, as by SIGSTOP or a debugger."""
    with suppress(psutil.Error):
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return False
