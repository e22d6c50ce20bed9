"""Which requests a policy worker answers together."""

from collections.abc import Sequence


def requests_due(
    waiting: Sequence[int], *, members: int, living: int, most: int, waited_s: float, wait_s: float
) -> Sequence[int]:
    """The slots that make the next batch; empty while it is better to wait for more.

    A batch goes when it is full, when every client has a request in it, or after `wait_s`.

    Args:
        waiting: The slots with open requests, in the order in which it is their turn.
        members: Slots of a client.
        living: Clients that may still post.
        most: Slots of a full batch.
        waited_s: Seconds since the first of these requests was seen.
        wait_s: The most that a request waits for others.
    """
    if len(waiting) >= most:
        return waiting[:most]
    have_posted = len({slot // members for slot in waiting})
    return waiting if waiting and (have_posted >= living or waited_s >= wait_s) else ()
