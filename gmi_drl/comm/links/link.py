"""What reductions need between ranks that share no memory: vectors from one to another, with their bytes counted."""

from typing import Protocol

from torch import Tensor


class Link(Protocol):
    """Transport of float32 vectors `[n]` between any two ranks of a group.

    Who sends and who receives know from the algorithm how many numbers travel; vectors without any do not travel.
    Between two ranks order is kept. Every call that waits raises `PeerDiedError` or `PeerSilentError` as `Group` says;
    both name the rank that is lost, also where it is another one's loss that this rank hears of.

    Attributes:
        rank: This process, from 0.
        size: Processes in the group.
        wait_s: Seconds spent in these calls.
    """

    rank: int
    size: int
    wait_s: float

    @property
    def sent(self) -> dict[tuple[int, int], int]:
        """The bytes of vectors that have left this rank, by (from, to); pairs that never spoke are not there."""

    def send(self, vector: Tensor, to: int) -> None:
        """Return when the vector may be written again."""
        ...

    def receive(self, vector: Tensor, source: int) -> None:
        """Return when the vector has what `source` has sent."""
        ...

    def exchange(self, vector: Tensor, to: int, into: Tensor, source: int) -> None:
        """Send and receive at once, as a ring needs it: all its members send before anyone receives."""
        ...
