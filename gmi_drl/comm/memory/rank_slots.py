"""Memory that ranks share: for each rank a slot, and a staging area for vectors that live elsewhere."""

import torch
from torch import Tensor

from gmi_drl.comm.memory.segment import STAGING_BYTES, first_slot, map_segment
from gmi_drl.errors import UsageError

Vectors = Tensor | list[Tensor]
"""One vector for each rank: float32 `[size, n]`, or a list of `size` times `[n]`."""


class RowMemory:
    """Slots and staging areas in any kind of memory. One reduction of a group may use them.

    Args:
        slots: One for each rank.
        staging: One for each rank, through which vectors pass in pieces.
    """

    def __init__(self, slots: Vectors, staging: Vectors) -> None:
        self.slots, self.staging = slots, staging
        self._are_given = False

    def give(self) -> None:
        """Reserve them for a reduction.

        Raises:
            UsageError: If another reduction has them.
        """
        if self._are_given:
            raise UsageError("this group has a reduction already, whose bucket lies in the slots: open another group")
        self._are_given = True


class Rows(RowMemory):
    """The slots and staging areas of a segment (`memory.segment.create_segment`), mapped in this process.

    Args:
        fd: The segment's descriptor, inherited from the parent; the caller closes it.
        size: The number of ranks that it was made for.

    Attributes:
        memory: The whole segment.
        slots: float32 `[size, slot_bytes / 4]`: one for each rank, of whole pages.
        staging: float32 `[size, STAGING_BYTES / 4]`: through which vectors pass in pieces.

    Raises:
        UsageError: If the descriptor is no segment for `size` ranks.
    """

    slots: Tensor
    staging: Tensor

    def __init__(self, fd: int, size: int) -> None:
        self.memory, slot_bytes = map_segment(fd, size)
        data = torch.frombuffer(self.memory, dtype=torch.uint8)[first_slot(size) :].view(size, -1)
        slots, staging = data[:, :slot_bytes], data[:, slot_bytes : slot_bytes + STAGING_BYTES]
        super().__init__(slots.view(torch.float32), staging.view(torch.float32))
