"""What ranks that share no memory need: vectors sent from rank to rank, with their bytes counted."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor


class Link(Protocol):
    """Transport of float32 vectors `[n]` between any two ranks of a group.

    Sender and receiver know from the algorithm how many numbers travel; empty vectors do not travel. Order is kept
    between two ranks. Every call that waits raises `PeerDiedError` or `PeerSilentError` as `Group` says; all ranks name
    the same lost rank.

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
        """The bytes of vectors that this rank has sent, by (from, to); only pairs that have exchanged any."""

    def send(self, vector: Tensor, to: int) -> None:
        """Send a vector. It may be written again when this returns."""
        ...

    def receive(self, vector: Tensor, source: int) -> None:
        """Receive what `source` has sent into a vector."""
        ...

    def exchange(self, vector: Tensor, to: int, into: Tensor, source: int) -> None:
        """Send and receive at once, as a ring needs it: all its members send before any receives."""
        ...


class MovingLink(Protocol):
    """Transport of vectors of any type that NumPy has between all ranks of a group; the rest as of a `Link`.

    Attributes:
        rank: This process, from 0.
        size: Processes in the group.
        device: Where large vectors should lie; the host's memory will do for all.
    """

    rank: int
    size: int
    device: torch.device

    def move_several(self, sends: Mapping[int, Sequence[Tensor]], receives: Mapping[int, Sequence[Tensor]]) -> None:
        """Send vectors to each of some ranks, and receive some from each of others; each has a sender's order."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...
