"""The agent's end of the channels, wherever its trainers are."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from torch import Tensor

from gmi_drl.comm.channels.dispenser import Place, channels_of
from gmi_drl.comm.channels.records import Record
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.memory.leases import Lease
from gmi_drl.errors import UsageError


class NewestParameters(Protocol):
    """The newest parameters, as an agent has them: see `Parameters`."""

    def newest_version(self) -> int | None:
        """Theirs; None before the first."""

    def read_into(self, tensors: Sequence[Tensor]) -> int:
        """Copy them; their version."""


class AgentEnd(ABC):
    """What an agent sends, and the parameters that it gets. One thread uses it at a time.

    Args:
        sizes: The same for all ends.

    Attributes:
        parameters: The newest ones.
        rollouts: The number of the next rollout, from 0; of a process that succeeds others from after all of theirs.
        wait_s: Seconds waited so far, for a place or for room in a queue.
    """

    parameters: NewestParameters

    def __init__(self, sizes: ChannelSizes) -> None:
        self.sizes = sizes
        self.rollouts, self.wait_s = 0, 0.0
        self._channels = channels_of(sizes)
        self._place: Place | None = None

    def lease(self) -> Place | None:
        """Take the next place, before acting: where there is none this waits until a trainer gives some back.

        Returns:
            None when no more experience is needed.

        Raises:
            UsageError: If the last place was not committed.
            PeerDiedError: If a trainer has ended, or who stands in for a far agent.
            PeerSilentError: If trainers have neither freed one nor heard anything for some times `hang_s`
                (`gmi_drl.layout.waits`): those that wait for an agent which stands still name it before.
        """
        if self._place is not None and not self._place.is_committed:
            raise UsageError("the last place was not committed, and so the next one cannot be leased")
        lease = self._next_lease()
        if lease is None:
            return None
        self._place = Place(lease, self.rollouts - 1, self._views_of(lease), self._channels, self._send)
        return self._place

    @abstractmethod
    def close(self) -> None:
        """Be done with it. What was sent still arrives."""

    @abstractmethod
    def _next_lease(self) -> Lease | None:
        """Wait for a place, and count it as a rollout's; None when no more is needed."""

    @abstractmethod
    def _views_of(self, lease: Lease) -> dict[str, Tensor]:
        """Where its rollout is to be written, by kind: `[T, N, ...]`."""

    @abstractmethod
    def _send(self, trainer: int, record: Record) -> None:
        """Tell a trainer, by rank, of steps that are in a place."""

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """What is done within is waiting."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.wait_s += time.perf_counter() - began
