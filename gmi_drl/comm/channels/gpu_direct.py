"""Experience that never leaves a GPU: agents there write into the memory of their trainer (CUDA IPC).

It is the paper's forwarding within a GPU (section 4.2). A trainer allocates its batches from the driver and writes
their handle into its table; its direct agents map them and write each rollout where it is learnt from. Queues, leases
and records stay in the host's memory. The host waits for a stream in two places: an agent before it announces what its
kernels have written (`Place`), and a trainer before it gives back places that its kernels have read.

Under MPS, kernels that a process has launched run on after its death. So a place that a direct agent has left
unfinished is leased to nobody: the trainer goes on until it needs it, and then raises an error that names the agent.
"""

import torch
from torch import Tensor

from gmi_drl.comm.channels.channel_memory import HANDLE, SHARED, ChannelMemory
from gmi_drl.comm.memory.cuda_ipc import HANDLE_BYTES, MappedDeviceMemory, SharedDeviceMemory
from gmi_drl.comm.memory.fence import order_loads, publish
from gmi_drl.comm.memory.notify import Notifier

_FLOAT_BYTES = 4
_HANDLE_WORDS = HANDLE_BYTES // 8


def share_batches(memory: ChannelMemory, trainer: int, device: torch.device) -> list[Tensor]:
    """Allocate the batches of a trainer on its GPU, uint8 `[batch_bytes]` each. Its direct agents can then map them.

    They last as long as the process, which stays until they are unmapped (`await_unmapped`).

    Raises:
        MachineError: If there is no room, or other processes cannot map this GPU's memory.
    """
    shared = SharedDeviceMemory(_numbers(memory), device)
    table = memory.table(trainer)
    table[HANDLE : HANDLE + _HANDLE_WORDS] = memoryview(shared.handle).cast("q")
    publish(table, SHARED, 1)
    return _batches(memory, shared.tensor)


def await_unmapped(memory: ChannelMemory, trainer: int, notifier: Notifier, most_s: float) -> None:
    """Wait at most `most_s` seconds until all direct agents of a trainer have unmapped its batches or have ended.

    A process that ends takes its memory with it, which CUDA forbids while others have it mapped.
    """
    agents, unmapped = memory.sizes.agents, memory.unmapped(trainer)
    notifier.wait_until_left(memory.sizes.direct_to(trainer), most_s, lambda gmi: bool(unmapped[agents.index(gmi)]))


class MappedBatches:
    """A trainer's batches on the GPU, mapped in the process of an agent on that GPU.

    Args:
        memory: Of the channels.
        trainer: By rank.
        device: The GPU, as this process sees it.
        notifier: Of the agent.

    Attributes:
        batches: uint8 `[batch_bytes]` each, not to be used after `close`.

    Raises:
        MachineError: If they cannot be mapped.
        PeerDiedError: If the trainer has ended before it shared them.
        PeerSilentError: If it has not shared them within `hang_s`.
    """

    def __init__(self, memory: ChannelMemory, trainer: int, device: torch.device, notifier: Notifier) -> None:
        self._notifier, self._unmapped = notifier, memory.unmapped(trainer)
        self._trainer = memory.sizes.trainers[trainer]
        self._index = memory.sizes.agents.index(notifier.own)
        table = memory.table(trainer)
        notifier.wait(lambda: bool(table[SHARED]), self._trainer, "shared its GPU memory")
        order_loads()
        handle = table[HANDLE : HANDLE + _HANDLE_WORDS].tobytes()
        self._mapped = MappedDeviceMemory(handle, _numbers(memory), device)
        self.batches = _batches(memory, self._mapped.tensor)

    def close(self) -> None:
        """Unmap them, when all launched work is done, and notify the trainer."""
        self.batches.clear()
        self._mapped.close()
        publish(self._unmapped, self._index, 1)
        self._notifier.notify(self._trainer)


def _numbers(memory: ChannelMemory) -> int:
    return memory.sizes.batches * memory.batch_stride // _FLOAT_BYTES


def _batches(memory: ChannelMemory, numbers: Tensor) -> list[Tensor]:
    rows = numbers.view(torch.uint8).view(memory.sizes.batches, memory.batch_stride)
    return [row[: memory.sizes.batch_bytes] for row in rows]
