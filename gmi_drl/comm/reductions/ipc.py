"""Reduction in the memory of one GPU, which all its GMIs have mapped: MPR without the way through the host."""

import sys

import torch
from torch import Tensor

from gmi_drl.comm.groups.ipc import IpcGroup
from gmi_drl.comm.memory.pinned import await_stream
from gmi_drl.comm.reductions.mpr_shm import SharedMemoryReduction


class IpcReduction(SharedMemoryReduction):
    """As `SharedMemoryReduction`, in memory on the GPU: a rank launches a kernel for each rank.

    A rank's kernels are done before another rank launches the next ones: the host waits for its stream, then for the
    other ranks. That costs two such waits in each `reduce`, after which the GPU is idle until more is launched. Events
    that other processes wait for on the device would need as many barriers on the host.

    Args:
        group: The ranks, of one GPU.
        device: That GPU.

    Raises:
        UsageError: If the group has a reduction already, or the device is no GPU.
        MachineError: If the memory of this GPU cannot be shared; on all ranks.
    """

    group: IpcGroup
    block = sys.maxsize

    def __init__(self, group: IpcGroup, device: torch.device | str = "cuda:0") -> None:
        super().__init__(group, device, group.share(torch.device(device)))

    def sync(self, call: int) -> None:
        """Wait for this rank's stream, then for all others; see `SharedMemoryReduction`."""
        await_stream(self._device)
        self.group.sync(call)

    def spread(self, vector: Tensor, others: list[Tensor]) -> None:
        """Copy a vector into all others by one kernel."""
        if others:
            torch._foreach_copy_(others, [vector] * len(others))
