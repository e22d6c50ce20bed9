"""A group of processes that share one GPU and map each other's memory on it."""

from collections.abc import Callable
from typing import TypeVar

import torch

from gmi_drl.comm.groups.shared_memory import SharedMemoryGroup
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.cuda_ipc import MappedDeviceMemory, SharedDeviceMemory
from gmi_drl.comm.memory.rank_slots import RowMemory
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import MachineError

_FAREWELL_S = 2.0

Result = TypeVar("Result")


class IpcGroup(SharedMemoryGroup):
    """A `SharedMemoryGroup` whose ranks may also share GPU memory, by plain sharing or MPS.

    Args:
        member: This process.
        rendezvous: With a segment for all ranks.

    Raises:
        UsageError: If the descriptor is no segment for this many ranks.
        PeerSilentError: If the others have not opened theirs within `hang_s`.
    """

    def __init__(self, member: Membership, rendezvous: Rendezvous) -> None:
        super().__init__(member, rendezvous)
        self._mapped: dict[int, MappedDeviceMemory] = {}  # by rank
        self._has_shared = False

    def share(self, device: torch.device) -> RowMemory:
        """Slots and staging areas on a GPU, as large as those of the segment. All ranks call it, for one reduction.

        Raises:
            UsageError: If it was called before, or the device is no GPU.
            MachineError: If the memory of this GPU cannot be shared; on all ranks.
        """
        self.rows.give()
        self._has_shared = True
        slot = self.rows.slots.shape[1]
        numel = slot + self.rows.staging.shape[1]
        own = self._together(lambda: SharedDeviceMemory(numel, device))
        handles = self.gather(torch.tensor(list(own.handle), dtype=torch.float64)).to(torch.uint8)
        self._together(lambda: self._map([bytes(handle.tolist()) for handle in handles], numel, device))
        theirs = {rank: mapped.tensor for rank, mapped in self._mapped.items()} | {self.rank: own.tensor}
        rows = [theirs[rank] for rank in range(self.size)]
        return RowMemory([row[:slot] for row in rows], [row[slot:] for row in rows])

    def close(self) -> None:
        """Unmap what others have shared, and wait a moment until they have unmapped, too; see `Group`.

        A process that ends takes its memory with it, which CUDA forbids while others have it mapped.
        """
        for mapped in self._mapped.values():
            mapped.close()
        self._mapped.clear()
        if self._has_shared:
            self._peers.leave(_FAREWELL_S)
        super().close()

    def _map(self, handles: list[bytes], numel: int, device: torch.device) -> None:
        for rank, handle in enumerate(handles):
            if rank != self.rank:
                self._mapped[rank] = MappedDeviceMemory(handle, numel, device)

    def _together(self, act: Callable[[], Result]) -> Result:
        """Run `act` on all ranks. Returns its result; if it fails on any rank, all raise `MachineError`."""
        error: MachineError | None = None
        try:
            result = act()
        except MachineError as caught:
            error = caught
        failed = self.gather(torch.tensor([error is not None], dtype=torch.float64)).flatten().tolist()
        if error is not None:
            raise error
        if any(failed):
            raise MachineError(
                f"rank {failed.index(1.0)} cannot share its GPU memory with the other ranks of {self.size}: "
                "its log says why. Use MPR-shm"
            )
        return result
