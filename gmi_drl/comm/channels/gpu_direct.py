"""Experience that never leaves a GPU: agents there write into the memory of their trainer (CUDA IPC).

It is the paper's forwarding within a GPU (section 4.2). A trainer takes its batches from the driver and leaves their
handle in its table; its direct agents map them and write each rollout where it is learnt from. Queues, leases and
records stay in the host's memory. Two waits of the host for a stream keep the order: an agent's before it tells of what
its kernels have written (`Place`), and a trainer's before it gives places back that its kernels have read.

Under MPS what a process has launched goes on after its death. So a place that a direct agent has left unfinished is
leased to nobody: the trainer goes on until it needs it, and then names the agent.

Not yet run on a GPU.
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
    """The batches of a trainer on its GPU, uint8 `[batch_bytes]` each, which its direct agents can map from now on.

    They last as long as the process, which stays until they are unmapped (`await_unmapped`).

    Raises:
        MachineError: If there is no room, or this GPU's memory cannot be mapped by others.
    """
    shared = SharedDeviceMemory(_numbers(memory), device)
    table = memory.table(trainer)
    table[HANDLE : HANDLE + _HANDLE_WORDS] = memoryview(shared.handle).cast("q")
    publish(table, SHARED, 1)
    return _batches(memory, shared.tensor)


def await_unmapped(memory: ChannelMemory, trainer: int, notifier: Notifier, most_s: float) -> None:
    """Wait until all direct agents of a trainer have unmapped its batches, or have ended, but not for longer than so.

    A process that ends takes its memory with it, which CUDA forbids while others have it mapped.
    """
    agents, unmapped = memory.sizes.agents, memory.unmapped(trainer)
    notifier.wait_until_left(memory.sizes.direct_to(trainer), most_s, lambda gmi: bool(unmapped[agents.index(gmi)]))


class MappedBatches:
    """A trainer's batches on the GPU, in the process of an agent of that GPU.

    Args:
        memory: Of the channels.
        trainer: By rank.
        device: Where this process sees the GPU.
        notifier: Of the agent.

    Attributes:
        batches: Uint8 `[batch_bytes]` each, not to be touched after `close`.

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
        notifier.wait(lambda: bool(table[SHARED]), self._trainer, "shared its memory of the GPU")
        order_loads()
        handle = table[HANDLE : HANDLE + _HANDLE_WORDS].tobytes()
        self._mapped = MappedDeviceMemory(handle, _numbers(memory), device)
        self.batches = _batches(memory, self._mapped.tensor)

    def close(self) -> None:
        """Unmap them, when all that was launched has been done, and tell the trainer."""
        self.batches.clear()
        self._mapped.close()
        publish(self._unmapped, self._index, 1)
        self._notifier.notify(self._trainer)


def _numbers(memory: ChannelMemory) -> int:
    return memory.sizes.batches * memory.batch_stride // _FLOAT_BYTES


def _batches(memory: ChannelMemory, numbers: Tensor) -> list[Tensor]:
    rows = numbers.view(torch.uint8).view(memory.sizes.batches, memory.batch_stride)
    return [row[: memory.sizes.batch_bytes] for row in rows]
