"""Operations in progress that can only be polled."""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Thread

from gmi_drl.errors import GmiError


class AsyncWork:
    """An operation with the interface of torch's `Work`.

    Args:
        done: Whether it has ended, with or without an error.
        end: Called once it has ended; raises its error.
    """

    def __init__(self, done: Callable[[], bool], end: Callable[[], object]) -> None:
        self._done, self._end = done, end

    def wait(self, timeout: timedelta = timedelta.max) -> None:
        """Return when it has ended.

        Raises:
            RuntimeError: If it has not within the timeout.
        """
        last = time.perf_counter() + timeout.total_seconds()
        while not self._done():
            if time.perf_counter() > last:
                raise RuntimeError("it has not ended yet")
            os.sched_yield()  # to threads that do it, on this core
        self._end()

    def is_completed(self) -> bool:
        """Whether it has ended."""
        return self._done()


def in_background(work: Callable[[], object]) -> AsyncWork:
    """Run `work` in a thread. It returns when the peers have done the same, and may never return."""
    errors: list[Exception] = []

    def do() -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)

    def end() -> None:
        if errors and isinstance(errors[0], GmiError):
            raise errors[0]
        if errors:
            raise RuntimeError(str(errors[0])) from errors[0]

    thread = Thread(target=do, daemon=True)
    thread.start()
    return AsyncWork(lambda: not thread.is_alive(), end)
