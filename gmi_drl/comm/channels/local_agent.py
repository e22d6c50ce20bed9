"""The end of an agent on the host of its trainers, whose memory it shares."""

import torch
from torch import Tensor

from gmi_drl.comm.channels.agent_end import AgentEnd
from gmi_drl.comm.channels.channel_memory import ChannelMemory, kind_views
from gmi_drl.comm.channels.gpu_direct import MappedBatches
from gmi_drl.comm.channels.records import Record
from gmi_drl.comm.memory.leases import ROLLOUTS_OF_ONE, Lease
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.pinned import register, unregister
from gmi_drl.comm.memory.record_ring import RingWriter
from gmi_drl.comm.memory.shared_lock import SharedLock

MADE_ROOM = "made room for experience"
"""What a waiting agent needs trainers to do, in errors."""


class LocalAgentEnd(AgentEnd):
    """See `AgentEnd`: the agent writes places where trainers read them.

    If an agent on a GPU writes places in host memory, they are registered with CUDA, so that it copies by DMA; not yet
    run on a GPU.

    Attributes:
        patience: How many times `hang_s` trainers are waited for.
    """

    def __init__(
        self,
        memory: ChannelMemory,
        lock: SharedLock,
        notifier: Notifier,
        device: torch.device,
        predecessors: int,
        patience: int,
    ) -> None:
        super().__init__(sizes := memory.sizes)
        self.rollouts = predecessors * ROLLOUTS_OF_ONE
        self.parameters = memory.parameters(notifier, patience)
        self._memory, self._lock, self._notifier = memory, lock, notifier
        self.patience = patience
        self._index = sizes.agents.index(notifier.own)
        memory.predecessors[self._index] = predecessors
        memory.elsewhere[self._index] = 0
        for trainer in sizes.trainers:
            notifier.notify(trainer)  # they may wait for this agent
        self._leases = memory.leases(lock)
        self._rings = [
            RingWriter(memory.memory, memory.ring_at(self._index, trainer), sizes.ring_records)
            for trainer in range(len(sizes.trainers))
        ]
        self._mapped = {
            trainer: MappedBatches(memory, trainer, device, notifier)
            for trainer in range(len(sizes.trainers))
            if notifier.own in sizes.direct_to(trainer)
        }
        trainers = range(len(sizes.trainers)) if device.type == "cuda" else ()
        written = [memory.pages(trainer) for trainer in trainers if trainer not in self._mapped]
        self._registered = [pages for pages in written if register(pages)]
        self._views: dict[tuple[int, int], dict[str, Tensor]] = {}
        self._leased: Lease | None = None

    @property
    def is_closed(self) -> bool:
        """Whether no more experience is needed."""
        return self._memory.is_closed

    def lease_now(self) -> Lease | None:
        """Lease the next place if one is free, and count it as a rollout's. The trainer's queue has room for all of it.

        Several rollouts may be leased and not sent yet: room for each stays reserved until its records are sent.

        Raises:
            PeerDiedError: If a trainer has ended.
        """
        ended = self._notifier.poll_ended(self.sizes.trainers)  # looked at before `is_closed`
        if ended and not self._memory.is_closed:
            self._notifier.check(ended[0], "trained on what is sent")
        records = self.sizes.rollout_records
        with_room = [trainer for trainer, ring in enumerate(self._rings) if ring.has_room(records)]
        leased = self._leases.lease(self._index, self.rollouts, with_room)
        if leased is not None:
            self.rollouts += 1
            self._rings[leased.trainer].reserve(records)
        return leased

    def send(self, trainer: int, record: Record) -> None:
        """Send a record to a trainer, by rank. Room in its queue was reserved by the lease."""
        self._rings[trainer].write(*record)
        self._notifier.notify(self.sizes.trainers[trainer])

    @property
    def keepalives(self) -> object:
        """A value that changes whenever a trainer sends a keepalive."""
        return self._memory.keepalives

    def bytes_of(self, trainer: int, record: Record) -> memoryview:
        """The memory of a record's steps, in a leased place of the host's memory."""
        batch, row = divmod(record.place % self.sizes.places, self.sizes.rollouts)
        numbers: memoryview = self._memory.batch(trainer, batch).numpy().data
        return numbers[self.sizes.span(record.kind, row, record.first, record.last)]

    def note_elsewhere(self, *, waits: bool) -> None:
        """See `AgentEnd`."""
        self._memory.elsewhere[self._index] = waits

    def close(self) -> None:
        """See `AgentEnd`."""
        self._views.clear()
        for mapped in self._mapped.values():
            mapped.close()
        for pages in self._registered:
            unregister(pages)
        self._notifier.close()
        self._lock.close()

    def _next_lease(self) -> Lease | None:
        if not self._is_served():
            with self._waiting():
                self._notifier.wait_for(
                    self._is_served, self.sizes.trainers, MADE_ROOM, self.patience, lambda: self.keepalives
                )
        return self._leased

    def _is_served(self) -> bool:
        """Try to lease. Returns whether a place was free, or none is needed any more."""
        self._leased = self.lease_now()
        return self._leased is not None or self._memory.is_closed

    def _send(self, trainer: int, record: Record) -> None:
        self.send(trainer, record)

    def _views_of(self, lease: Lease) -> dict[str, Tensor]:
        slot = lease.place % self.sizes.places
        key = (lease.trainer, slot)
        if key not in self._views:
            batch, place = divmod(slot, self.sizes.rollouts)
            mapped = self._mapped.get(lease.trainer)
            memory = mapped.batches[batch] if mapped else self._memory.batch(lease.trainer, batch)
            kinds = kind_views(self.sizes, memory)
            self._views[key] = {name: view[place] for name, view in kinds.items()}
        return self._views[key]
