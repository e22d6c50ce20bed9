"""Rows of memory that ranks share: for each rank a slot, and a staging area for what lives elsewhere."""

import torch
from torch import Tensor

from gmi_drl.comm.memory.segment import STAGING_BYTES, first_slot, map_segment
from gmi_drl.errors import UsageError

Vectors = Tensor | list[Tensor]
"""One for each rank: float32 `[size, n]`, or `size` times `[n]`."""


class RowMemory:
    """Memory of any kind that one reduction of a group may have.

    Args:
        slots: One for each rank.
        staging: One for each rank: for what passes through in pieces.
    """

    def __init__(self, slots: Vectors, staging: Vectors) -> None:
        self.slots, self.staging = slots, staging
        self._are_given = False

    def give(self) -> None:
        """Let a reduction have them.

        Raises:
            UsageError: If another has them.
        """
        if self._are_given:
            raise UsageError("this group has a reduction already, whose bucket lies in the slots: open another group")
        self._are_given = True


class Rows(RowMemory):
    """A segment of `memory.segment.create_segment` in this process.

    Args:
        fd: The segment's descriptor, inherited from the parent; it stays the caller's to close.
        size: Ranks that it was made for.

    Attributes:
        memory: All of it.
        slots: float32 `[size, slot_bytes / 4]`: one for each rank, of whole pages.
        staging: float32 `[size, STAGING_BYTES / 4]`: for what passes through in pieces.

    Raises:
        UsageError: If the descriptor is no segment for so many ranks.
    """

    slots: Tensor
    staging: Tensor

    def __init__(self, fd: int, size: int) -> None:
        self.memory, slot_bytes = map_segment(fd, size)
        data = torch.frombuffer(self.memory, dtype=torch.uint8)[first_slot(size) :].view(size, -1)
        slots, staging = data[:, :slot_bytes], data[:, slot_bytes : slot_bytes + STAGING_BYTES]
        super().__init__(slots.view(torch.float32), staging.view(torch.float32))
