"""How one process tells others, by a word of shared memory, that data is there: the one place where that is done.

Who has data stores it and then calls `publish`. Who looks for it reads the word, calls `order_loads`, and reads it.
"""

import platform
import threading

from gmi_drl.hardware import STORES_IN_ORDER

_LOCK = threading.Lock()
_acquire, _release = _LOCK.acquire, _LOCK.release  # half of what a `with` block takes
_LOADS_IN_ORDER = platform.machine() in STORES_IN_ORDER  # such processors keep the order of loads, too


def fence() -> None:
    """Have all loads and stores of this thread done, as other processors see them, before any that follow.

    Taking a lock is an instruction that waits for them, also for large copies, which stream past the cache.
    """
    _acquire()
    _release()


def publish(words: memoryview, place: int, value: int) -> None:
    """Store a word that tells others of data: who sees it sees all that this thread has stored before.

    What this thread has read is read by then, too, so the word may also say that others can write there again.

    Args:
        words: Of shared memory, 8 bytes each.
        place: Of the word.
        value: The new one.
    """
    _acquire()
    _release()
    words[place] = value


def order_loads() -> None:
    """Have all that this thread has read before read before what it reads next: between a word and its data."""
    if not _LOADS_IN_ORDER:
        fence()
