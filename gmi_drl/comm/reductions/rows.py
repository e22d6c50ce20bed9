"""What reductions in shared memory have in common: how a vector gets into this rank's row and out of it."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from gmi_drl.comm.group import Group
from gmi_drl.comm.memory.collective_calls import REDUCE_SLOT, REDUCE_STAGED, call_code
from gmi_drl.comm.memory.pinned import Upload, await_stream, register
from gmi_drl.comm.memory.rank_slots import RowMemory, Vectors
from gmi_drl.comm.partition import in_pieces
from gmi_drl.comm.reduction import check_bucket, check_first_bucket
from gmi_drl.errors import UsageError


class RowReduction(ABC):
    """A `Reduction` of rows in shared memory, of the host or of a GPU.

    If the bucket's device has the rows, the bucket lies in its rank's slot and nothing is copied. A bucket on a GPU
    whose rows are the host's is copied to the slot and back by the stream, which is waited for before the sum; the slot
    is registered with CUDA if possible, so that both copies go by DMA. Other vectors go through the slot, too, or, if a
    bucket lies there, in pieces through a staging area. So on one kind of device all ranks must do the same: have their
    bucket or not, and reduce it or not.

    Args:
        group: The ranks.
        rows: Memory of some of the ranks, this one among them.
        row: The index of this rank's row.
        device: Where its bucket shall be.

    Raises:
        UsageError: If the group has a reduction already, which uses the slots.
        MachineError: If CUDA cannot be used.
    """

    def __init__(self, group: Group, rows: RowMemory, row: int, device: torch.device | str) -> None:
        rows.give()
        self.group = group
        self._rows, self._row = rows, row
        self._device = torch.device(device)
        self._bucket: Tensor | None = None
        self._bucket_in_slot: Tensor | None = None
        self._upload = Upload()
        if self._device.type == "cuda" and rows.slots[row].device.type == "cpu":
            register(rows.slots[row])

    def bucket(self, numel: int) -> Tensor:
        """A zeroed vector, in this rank's slot if the device has the rows; see `Reduction`."""
        check_first_bucket(self._bucket, numel)
        slot = self._rows.slots[self._row]
        if numel > slot.numel():
            raise UsageError(
                f"a bucket of {numel} numbers does not fit into a slot of {slot.numel()}: enlarge slot_bytes"
            )
        if self._device.type == slot.device.type:
            self._bucket_in_slot = self._bucket = slot[:numel].zero_()
        else:
            self._bucket = torch.zeros(numel, device=self._device)
        return self._bucket

    def reduce(self, bucket: Tensor) -> None:
        """Sum in place over the group; see `Reduction`."""
        check_bucket(bucket)
        numel = bucket.numel()
        if self._bucket_in_slot is None:
            self._pass_through(bucket.detach(), self._rows.slots, call_code(REDUCE_SLOT, numel))
        elif bucket.data_ptr() == self._bucket_in_slot.data_ptr() and numel == self._bucket_in_slot.numel():
            self.sum_rows(self._rows.slots, numel, call_code(REDUCE_SLOT, numel))
        else:
            self._pass_through(bucket.detach(), self._rows.staging, call_code(REDUCE_STAGED, numel))

    @abstractmethod
    def sum_rows(self, rows: Vectors, numel: int, call: int) -> None:
        """Put the group's sum into this rank's row. All ranks of the group call it.

        Args:
            rows: One row for each rank that shares them, with its numbers. When this returns, nobody reads or writes
                this rank's row any more.
            numel: How many numbers of each row count.
            call: The code of the call, for all ranks to compare (`memory.collective_calls`).
        """

    def _pass_through(self, vector: Tensor, rows: Vectors, call: int) -> None:
        """Sum a vector that lies elsewhere: copy it into this rank's row and back, in as many pieces as needed."""
        row = rows[self._row]
        for place in in_pieces(vector.numel(), row.numel()):
            part = vector[place]
            mine = row[: part.numel()]
            self._upload.wait()  # for the last copy out of the row
            mine.copy_(part, non_blocking=True)
            await_stream(part.device)  # the peers read it next
            self.sum_rows(rows, part.numel(), call)
            self._upload.start(mine, part)
