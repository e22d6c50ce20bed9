"""Memory order between processes: the one place in which a word of shared memory announces data.

A writer stores the data and then calls `publish`. A reader reads the word, calls `order_loads`, and reads the data.

What the fence is made of: Python has no such instruction, but it has locks. CPython makes them of a semaphore of the C
library (`Python/thread_pthread.h`, and `lock.acquire` tries `sem_trywait` first), or since 3.13 of an atomic byte.

- x86-64 keeps the order of stores, and that of loads, but not that of the non-temporal stores of large copies and the
  word that follows. Taking a lock is a locked instruction: no load or store changes places with it, and it writes out
  what is still combined (Intel SDM, volume 3, "Memory Ordering" and "Buffering of Write Combining Memory Locations").
- aarch64 keeps neither order, and one lock is no fence there: taking it is an acquire and giving it back a release
  (glibc, `nptl/sem_waitcommon.c` and `sem_post.c`), and what comes before and after may both move in between. Two locks
  are a fence: all that comes before is ordered before the first release, that release before the second acquire, and
  that acquire before all that comes after (Arm Architecture Reference Manual, DDI 0487, "Barrier-ordered-before"; a
  read-modify-write acquires by LDAXR or CASA, never by the weaker LDAPR). The lock may be this process's own, because
  the order is the same for all processes that see the memory. Not run on such a processor yet.

`membarrier(2)` would do as well, but only by MEMBARRIER_CMD_GLOBAL_EXPEDITED: the command for one process returns
before any barrier where that has one thread (Linux, `kernel/sched/membarrier.c`). It takes 2.2 us on x86-64, a lock
0.08 us and two 0.16 us, on a virtual machine of two shared cores.
"""

import platform
import threading

from gmi_drl.hardware.node import FENCED, IN_ORDER

_LOCK = threading.Lock()
_acquire, _release = _LOCK.acquire, _LOCK.release  # half of what a `with` block takes
_IN_ORDER = platform.machine() in IN_ORDER


def obstacle(what: str) -> str | None:
    """Why `what` cannot run on this processor, whose memory order `fence` does not know; None if it can.

    Args:
        what: The name of what shares memory, plural.
    """
    processor = platform.machine()
    return None if processor in FENCED else f"{what} need a processor of {', '.join(FENCED)}, not {processor}"


def fence() -> None:
    """Complete all loads and stores of this thread, as other processors see them, before any that follow."""
    _acquire()
    _release()
    if not _IN_ORDER:
        _acquire()
        _release()


def publish(words: memoryview, place: int, value: int) -> None:
    """Store a word that announces data: a process that sees the word sees all that this thread has stored before.

    Earlier reads of this thread are done, too, so the word may also announce that others can overwrite what it read.

    Args:
        words: Shared memory, 8 bytes each.
        place: The index of the word.
        value: Its new value.
    """
    fence()
    words[place] = value


def order_loads() -> None:
    """Complete all earlier reads of this thread before its next read: call it after reading a word, before its data."""
    if not _IN_ORDER:
        fence()
