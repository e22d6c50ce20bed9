"""Order between large copies and the word that counts them."""

import threading

_LOCK = threading.Lock()


def order_stores() -> None:
    """Have all stores of this thread seen before those that follow: a large copy may stream past the cache.

    Taking a lock is an instruction that waits for them.
    """
    with _LOCK:
        pass
