"""Reduction in shared memory: each rank sums its part of all vectors (MPR, paper section 4.1, on one host)."""

import torch
from torch import Tensor

from gmi_drl.comm.reduction import check_bucket, check_first_bucket
from gmi_drl.comm.shared_memory import SharedMemoryGroup, in_pieces, pieces
from gmi_drl.device.upload import Upload
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.memory.peers import REDUCE_SLOT, REDUCE_STAGED, call_word
from gmi_drl.memory.segment import LINE_BYTES
from gmi_drl.units import human_bytes

_LINE_FLOATS = LINE_BYTES // 4
_BLOCK = 64 * 1024  # floats summed at a time, so that the sum is still in the cache when it is written back

Blocks = list[list[Tensor]]


def shard_bounds(numel: int, size: int, rank: int) -> tuple[int, int]:
    """First and last + 1 element of the part that `rank` sums; all but the last of a vector are whole cache lines."""
    lines = -(-numel // _LINE_FLOATS)
    step = -(-lines // size) * _LINE_FLOATS
    return min(rank * step, numel), min((rank + 1) * step, numel)


class SharedMemoryReduction:
    """A `Reduction` in the slots of a segment: barrier, sum of the own shard into every slot, barrier.

    A bucket on the CPU lies in the slot of its rank, and nobody copies. One on a GPU is copied to the slot and back, by
    the stream, which is waited for before the first barrier; the slot is registered with CUDA, so that both copies go
    by DMA (not yet run on a GPU). Other vectors go through the slot, too, or, where a bucket lies in it, in pieces
    through a staging area: so whether it has its bucket, and whether it reduces that one, must be the same on all ranks
    of one kind of device.

    Args:
        group: The ranks and their segment.
        device: Where this rank's bucket shall be.

    Raises:
        UsageError: If the group has a reduction already: the slots are its.
        MachineError: If CUDA cannot register the slot.
    """

    def __init__(self, group: SharedMemoryGroup, device: torch.device | str = "cpu") -> None:
        group.give_slots()
        self.group = group
        self._device = torch.device(device)
        self._bucket: Tensor | None = None
        self._bucket_in_slot: Tensor | None = None
        self._blocks: dict[tuple[int, int], Blocks] = {}  # making views takes as long as summing them
        self._upload = Upload()
        if self._device.type == "cuda":
            _register(group.slots[group.rank])

    def bucket(self, numel: int) -> Tensor:
        """A zeroed vector, on the CPU in this rank's slot; see `Reduction`."""
        check_first_bucket(self._bucket, numel)
        room = self.group.slots.shape[1]
        if numel > room:
            raise UsageError(f"a bucket of {numel} numbers does not fit into a slot of {room}: enlarge slot_bytes")
        if self._device.type == "cpu":
            self._bucket_in_slot = self._bucket = self.group.slots[self.group.rank, :numel].zero_()
        else:
            self._bucket = torch.zeros(numel, device=self._device)
        return self._bucket

    def reduce(self, bucket: Tensor) -> None:
        """Sum in place over the group; see `Reduction`."""
        check_bucket(bucket)
        numel = bucket.numel()
        if self._bucket_in_slot is None:
            self._pass_through(bucket.detach(), self.group.slots, call_word(REDUCE_SLOT, numel))
        elif bucket.data_ptr() == self._bucket_in_slot.data_ptr() and numel == self._bucket_in_slot.numel():
            self._sum(self.group.slots, numel, call_word(REDUCE_SLOT, numel))
        else:
            self._pass_through(bucket.detach(), self.group.staging, call_word(REDUCE_STAGED, numel))

    def _pass_through(self, vector: Tensor, rows: Tensor, call: int) -> None:
        """Sum what lies elsewhere: into this rank's row and out of it, in as many pieces as the row makes it."""
        for place in in_pieces(vector.numel(), rows.shape[1]):
            part = vector[place]
            mine = rows[self.group.rank, : part.numel()]
            self._upload.wait()  # the last copy out of the row
            mine.copy_(part, non_blocking=True)
            if part.device.type == "cuda":
                torch.cuda.current_stream(part.device).synchronize()  # the peers read it next
            self._sum(rows, part.numel(), call)
            self._upload.start(mine, part)

    def _sum(self, rows: Tensor, numel: int, call: int) -> None:
        key = rows.data_ptr(), numel
        if key not in self._blocks:
            self._blocks[key] = self._shard_of(rows, numel)
        self.group.meet(call)
        for first, *others in self._blocks[key]:
            for other in others:  # always from rank 0 up: the same bits whoever sums
                first.add_(other)
            for other in others:
                other.copy_(first)
        self.group.meet(call)

    def _shard_of(self, rows: Tensor, numel: int) -> Blocks:
        """This rank's shard of the first `numel` columns, in blocks: for each the pieces of all ranks."""
        shard = shard_bounds(numel, self.group.size, self.group.rank)
        return [[row[place] for row in rows] for place in pieces(*shard, _BLOCK)]


def _register(slot: Tensor) -> None:
    """Lock the slot's pages for copies by DMA."""
    size = slot.numel() * slot.element_size()
    code = int(torch.cuda.cudart().cudaHostRegister(slot.data_ptr(), size, 0))  # type: ignore[no-untyped-call]
    if code != 0:
        raise MachineError(
            f"CUDA cannot register {human_bytes(size)} of shared memory (error {code}): is locked memory limited "
            "(ulimit -l)? MPR-gloo registers none"
        )
