"""The batches of a trainer: experience of all agents lies side by side, where it is learnt from.

Agents write where their rollout's place in a batch is (paper section 4.2: "concatenate multiple tensors from the same
channel"), so nothing is concatenated by copying. On a CPU a trainer learns from that memory itself.
"""

from abc import ABC, abstractmethod

from torch import Tensor

from gmi_drl.comm.channels.channel_memory import ChannelMemory, kind_views
from gmi_drl.comm.channels.records import Record


class Batches(ABC):
    """The batches of a trainer, on its device."""

    @abstractmethod
    def arrived(self, gmi: int, record: Record, is_kind_whole: bool) -> None:
        """Steps of a kind have come of an agent, by its GMI: see `Batcher.arrive`."""

    @abstractmethod
    def whole(self, batch: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The memory of a batch and its kinds, to learn from: the current stream has all of it."""

    @abstractmethod
    def give_back(self, batch: int) -> None:
        """The current stream was told all that reads a batch, and agents will write to the shared memory of it."""

    @abstractmethod
    def close(self) -> None:
        """Be done with them."""


class HostBatches(Batches):
    """On a CPU: views of the shared memory."""

    def __init__(self, memory: ChannelMemory, trainer: int) -> None:
        batches = [memory.batch(trainer, batch) for batch in range(memory.sizes.batches)]
        self._batches = [(batch, kind_views(memory.sizes, batch)) for batch in batches]

    def arrived(self, gmi: int, record: Record, is_kind_whole: bool) -> None:
        """Nothing is to be copied."""

    def whole(self, batch: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The shared memory itself."""
        return self._batches[batch]

    def give_back(self, batch: int) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Let go of the memory."""
        self._batches.clear()
