"""The agent's end of the channels, on whatever host its trainers are."""

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
        """Their version; None before the first."""

    def await_first(self) -> None:
        """Wait for the first version."""

    def read_into(self, tensors: Sequence[Tensor]) -> int:
        """Copy them. Returns their version."""


class AgentEnd(ABC):
    """Sends an agent's rollouts and receives the parameters. One thread uses it at a time.

    Args:
        sizes: The same for all ends.

    Attributes:
        parameters: The newest ones.
        rollouts: The number of the next rollout, from 0; in a process that succeeds others, from after all of theirs.
        wait_s: Seconds waited so far, for a place or for room in a queue.
    """

    parameters: NewestParameters

    def __init__(self, sizes: ChannelSizes) -> None:
        self.sizes = sizes
        self.rollouts, self.wait_s = 0, 0.0
        self._channels = channels_of(sizes)
        self._place: Place | None = None

    def lease(self) -> Place | None:
        """Lease the next place, before acting. If none is free, this waits until a trainer gives some back.

        Returns:
            None when no more experience is needed.

        Raises:
            UsageError: If the last place was not committed.
            PeerDiedError: If a trainer or a remote agent's proxy has ended.
            PeerSilentError: If trainers have neither freed a place nor received anything for some times `hang_s`
                (`gmi_drl.layout.waits`). Trainers that wait for an agent which stands still raise an error earlier.
        """
        if self._place is not None and not self._place.is_committed:
            raise UsageError("the last place was not committed: commit it before the next is leased")
        lease = self._next_lease()
        if lease is None:
            return None
        self._place = Place(lease, self.rollouts - 1, self._views_of(lease), self._channels, self._send)
        return self._place

    @abstractmethod
    def note_elsewhere(self, *, waits: bool) -> None:
        """Tell the trainers whether this agent waits for those of another policy, who may stand still."""

    @abstractmethod
    def close(self) -> None:
        """Close it. What was sent still arrives."""

    @abstractmethod
    def _next_lease(self) -> Lease | None:
        """Wait for a place, and count it as a rollout's; None when no more is needed."""

    @abstractmethod
    def _views_of(self, lease: Lease) -> dict[str, Tensor]:
        """Where the rollout is to be written, by kind: `[T, N, ...]`."""

    @abstractmethod
    def _send(self, trainer: int, record: Record) -> None:
        """Send a record to a trainer, by rank."""

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Add the time of a `with` block to `wait_s`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.wait_s += time.perf_counter() - began
