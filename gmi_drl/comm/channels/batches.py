"""The batches of a trainer: experience of all agents lies side by side, where it is learnt from.

Each agent writes its rollout's place in the batch itself (paper section 4.2: "concatenate multiple tensors from the
same channel"), so nothing is copied to concatenate. On a CPU a trainer learns from that memory itself.
"""

from abc import ABC, abstractmethod

from torch import Tensor

from gmi_drl.comm.channels.channel_memory import ChannelMemory, kind_views
from gmi_drl.comm.channels.records import Record


class Batches(ABC):
    """The batches of a trainer, on its device."""

    @abstractmethod
    def arrived(self, gmi: int, record: Record, is_kind_whole: bool) -> None:
        """Called when steps of a kind of an agent, by its GMI, have arrived: see `Batcher.arrive`."""

    @abstractmethod
    def whole(self, batch: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The memory of a batch and its kinds, to learn from; the current stream sees all of it."""

    @abstractmethod
    def give_back(self, batch: int) -> None:
        """Called when the current stream was given all work that reads a batch. Agents then overwrite its memory."""

    @abstractmethod
    def close(self) -> None:
        """Free them."""


class HostBatches(Batches):
    """Batches on a CPU: views of the shared memory."""

    def __init__(self, memory: ChannelMemory, trainer: int) -> None:
        batches = [memory.batch(trainer, batch) for batch in range(memory.sizes.batches)]
        self._batches = [(batch, kind_views(memory.sizes, batch)) for batch in batches]

    def arrived(self, gmi: int, record: Record, is_kind_whole: bool) -> None:
        """Nothing to copy."""

    def whole(self, batch: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The shared memory itself."""
        return self._batches[batch]

    def give_back(self, batch: int) -> None:
        """Nothing is in progress."""

    def close(self) -> None:
        """Drop the views."""
        self._batches.clear()
