"""Sums and broadcasts along a ring of ranks, over a link."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gmi_drl.comm.links.link import Link
from gmi_drl.comm.partition import pieces, shard_bounds

_PIECE = 64 * 1024  # floats passed on at a time, so that a whole ring is busy with a long vector


class Ring:
    """Some ranks of a link, each of which sends only to the next.

    Args:
        link: Between all ranks of the group.
        members: The ranks in the ring's order, the same on all of them; this rank is one of them.
    """

    def __init__(self, link: Link, members: Sequence[int]) -> None:
        self._link = link
        self._members = tuple(members)
        self._place = self._members.index(link.rank)
        self._size = len(members)
        self._next = self._members[(self._place + 1) % self._size]
        self._previous = self._members[self._place - 1]
        self._received = torch.empty(0, dtype=torch.float32, device="cpu")

    def all_reduce(self, vector: Tensor) -> None:
        """Sum a float32 vector `[n]` on the CPU in place over the ring.

        Chunk c is summed on its way from member c to member c - 1 and then copied, so all end with the same bits. A
        member sends 2 (k - 1) / k of the vector.
        """
        chunks = self._chunks(vector)
        for step in range(self._size - 1):
            mine = chunks[(self._place - step) % self._size]
            own = chunks[(self._place - step - 1) % self._size]
            received = self._received[: len(own)]
            self._link.exchange(mine, self._next, received, self._previous)
            own.add_(received)
        for step in range(self._size - 1):
            mine = chunks[(self._place - step + 1) % self._size]
            own = chunks[(self._place - step) % self._size]
            self._link.exchange(mine, self._next, own, self._previous)

    def broadcast(self, vector: Tensor, root: int) -> None:
        """Overwrite a float32 vector `[n]` on the CPU with that of rank `root`, passed on along the ring."""
        steps = (self._place - self._members.index(root)) % self._size
        for place in pieces(0, len(vector), _PIECE):
            if steps > 0:
                self._link.receive(vector[place], self._previous)
            if steps < self._size - 1:
                self._link.send(vector[place], self._next)

    def _chunks(self, vector: Tensor) -> list[Tensor]:
        """One chunk for each member; some are empty if there are fewer cache lines than members."""
        chunks = [vector[slice(*shard_bounds(len(vector), self._size, place))] for place in range(self._size)]
        if len(self._received) < len(chunks[0]):
            self._received = torch.empty_like(chunks[0])
        return chunks
