"""The agent's end of the channels."""

import time
from collections.abc import Callable, Sequence

from torch import Tensor

from gmi_drl.comm.channels.dispenser import Place, channels_of
from gmi_drl.comm.channels.leases import Lease, Leases
from gmi_drl.comm.channels.memory import ChannelMemory, kind_views
from gmi_drl.comm.channels.parameters import Parameters
from gmi_drl.errors import UsageError
from gmi_drl.memory.bells import Bells
from gmi_drl.memory.fence import order_stores
from gmi_drl.memory.lock import SharedLock
from gmi_drl.memory.ring import RingWriter


class AgentEnd:
    """What an agent sends, and the parameters that it gets. One thread uses it at a time.

    Attributes:
        parameters: The newest ones.
        wait_s: Seconds waited so far, for a place or for room in a queue.
    """

    def __init__(self, memory: ChannelMemory, lock: SharedLock, bells: Bells) -> None:
        self.parameters = Parameters(memory, bells)
        self.wait_s = 0.0
        self._memory, self._lock, self._bells = memory, lock, bells
        self._sizes = sizes = memory.sizes
        self._index = sizes.agents.index(bells.own)
        self._leases = Leases(memory, lock)
        self._rings = [
            RingWriter(memory.memory, memory.ring_at(self._index, trainer), sizes.ring_records)
            for trainer in range(len(sizes.trainers))
        ]
        self._channels = channels_of(sizes)
        self._views: dict[tuple[int, int], dict[str, Tensor]] = {}
        self._place: Place | None = None
        self._leased: Lease | None = None
        self._rollouts = 0

    def lease(self) -> Place | None:
        """Take the next place, before acting: where there is none this waits until a trainer gives some back.

        Returns:
            None when no more experience is needed.

        Raises:
            UsageError: If the last place was not committed.
            PeerDiedError: If a trainer has ended.
            PeerSilentError: If none was free for twice `hang_s`: trainers that wait for an agent which stands still
                name it after `hang_s`.
        """
        if self._place is not None and not self._place.is_committed:
            raise UsageError("the last place was not committed, and so the next one cannot be leased")
        ended = self._bells.look(self._sizes.trainers)  # before it is seen whether they said that it ends
        if ended and not self._memory.is_closed:
            self._bells.check(ended[0], "trained on what is sent")
        if not self._is_served():
            self._wait(self._is_served, self._sizes.trainers, "given back places", patience=2)
        if self._leased is None:
            return None
        self._place = Place(self._leased, self._rollouts, self._views_of(self._leased), self._channels, self._send)
        self._rollouts += 1
        return self._place

    def close(self) -> None:
        """Stop watching the trainers. What was sent still arrives."""
        self._views.clear()
        self._bells.close()
        self._lock.close()

    def _is_served(self) -> bool:
        """Whether a place was free, or none is needed any more."""
        self._leased = self._leases.lease(self._index, self._rollouts)
        return self._leased is not None or self._memory.is_closed

    def _send(self, lease: Lease, rollout: int, kind: int, first: int, last: int) -> None:
        ring, trainer = self._rings[lease.trainer], self._sizes.trainers[lease.trainer]
        if not ring.has_room():
            self._wait(lambda: ring.has_room() or self._memory.is_closed, (trainer,), "taken experience")
            if not ring.has_room():  # nobody reads it any more
                return
        order_stores()  # what the record tells of is there before it
        ring.put(lease.place, rollout, kind, first, last)
        self._bells.ring(trainer)

    def _wait(self, is_done: Callable[[], bool], trainers: Sequence[int], deed: str, patience: int = 1) -> None:
        began = time.perf_counter()
        try:
            self._bells.wait_for(is_done, trainers, deed, patience)
        finally:
            self.wait_s += time.perf_counter() - began

    def _views_of(self, lease: Lease) -> dict[str, Tensor]:
        slot = lease.place % self._sizes.places
        key = (lease.trainer, slot)
        if key not in self._views:
            batch, place = divmod(slot, self._sizes.rollouts)
            kinds = kind_views(self._sizes, self._memory.batch(lease.trainer, batch))
            self._views[key] = {name: view[place] for name, view in kinds.items()}
        return self._views[key]
