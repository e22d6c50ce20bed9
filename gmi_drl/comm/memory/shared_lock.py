"""A lock between processes, which the kernel releases when its holder ends."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import PeerSilentError

_NAP_S = 0.0001  # it is held for microseconds, unless its holder was stopped


class SharedLock:
    """An exclusive file lock (flock). It opens the file anew, because an inherited descriptor would share the lock.

    A process that forks while it holds the lock lends it to its child; `subprocess` does not, since it closes the
    descriptor.

    Args:
        descriptor: Of the file, such as a memfd; the caller closes it.
        holder: A word of shared memory into which the holder writes its id, plus 1.
        own: The id of this GMI.
        hang_s: Seconds after which a holder counts as silent; only seconds in which this process ran count.
    """

    def __init__(self, descriptor: int, holder: memoryview, own: int, hang_s: float) -> None:
        self._descriptor = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        self._holder, self._own, self._hang_s = holder, own, hang_s

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for the time of a `with` block.

        Raises:
            PeerSilentError: If another GMI has held it for `hang_s`.
        """
        if not self._take():
            self._await()
        self._holder[0] = self._own + 1
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _take(self) -> bool:
        with suppress(BlockingIOError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def _await(self) -> None:
        waiting = WaitClock()
        while not self._take():
            if waiting.look() > self._hang_s:
                held = f"GMI {self._holder[0] - 1} has held a lock for {self._hang_s:g} s (hang_s)"
                raise PeerSilentError(f"{held} while GMI {self._own} waited for it: was it stopped?")
            time.sleep(_NAP_S)
