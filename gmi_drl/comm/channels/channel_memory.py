"""The memory of the channels: one memfd of a run, with experience, its queues and the parameters.

After the header, in whole pages each: words of the run, two words for each agent, a table for each trainer, a ring for
each agent and trainer, two buffers of parameters, and for each trainer `max_lag + 1` batches.
"""

import mmap
import threading

import torch
from torch import Tensor

from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.memory.leases import GIVEN_BACK, OWNERS, Leases
from gmi_drl.comm.memory.mailbox_memory import Mailboxes, MailboxMemory
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.record_ring import ring_bytes
from gmi_drl.comm.memory.sealed import Sealed
from gmi_drl.comm.memory.segment import LINE_BYTES, create_empty, in_pages
from gmi_drl.comm.memory.shared_lock import SharedLock
from gmi_drl.comm.parameters.shared_memory import BUFFERS, Parameters
from gmi_drl.errors import UsageError

KEEPALIVE = GIVEN_BACK + 1
"""The next word of the table, also written only by the trainer: it changes when the trainer sends a keepalive."""

HANDLE = 2 * GIVEN_BACK
"""From here on the table has the handle by which direct agents map the batches on the GPU (`gpu_direct.py`)."""

SHARED = 3 * GIVEN_BACK - 1
"""The word of the table that is 1 when the handle is there."""

_SEALED = Sealed(b"gmi-chn1", "the channels")
_CLOSED, _HOLDER, _PARAMETERS = 0, LINE_BYTES // 8, 2 * LINE_BYTES // 8  # lines of the run's words
REMEDY = "use fewer agents or environments, or a smaller max_lag"
_AGENT_BYTES = 16  # two words for each agent
_DTYPES = {"float32": torch.float32, "float64": torch.float64, "uint8": torch.uint8}


def create_memory() -> int:
    """The memory of a run's channels, empty: the first trainer sets its size.

    Returns a descriptor for the GMIs to inherit. A launcher, which does not import torch, calls `create_empty` itself.
    """
    return create_empty("gmi-drl-channels")


class ChannelMemory:
    """The channels' memory, mapped in this process.

    The first trainer sizes it once (it is sealed) and notifies the others, who wait for that.

    Attributes:
        predecessors: For each agent, how many processes it had before its present one; the agents write it.
        elsewhere: For each agent, whether it waits for trainers of another policy; the agents write it.

    Args:
        descriptor: Of `create_memory`; the caller closes it after the last use of this object.
        sizes: Of all that lies in it.
        notifier: Of this GMI.

    Raises:
        UsageError: If the descriptor is something else, or the memory was made for other sizes.
        MachineError: If there is not enough memory.
        PeerDiedError: If the first trainer ended before it had made it.
        PeerSilentError: If it has not made it within `hang_s`.
    """

    def __init__(self, descriptor: int, sizes: ChannelSizes, notifier: Notifier) -> None:
        self.sizes = sizes
        self._plan()
        maker = sizes.trainers[0]
        if notifier.own == maker:
            _SEALED.make(descriptor, self.nbytes, sizes.text, REMEDY)
            for peer in (*sizes.agents, *sizes.trainers[1:], *sizes.readers):
                notifier.notify(peer)
        else:
            notifier.wait(lambda: is_made(descriptor), maker, "made the memory of the channels")
        self._made_for = _SEALED.description(descriptor)
        self.check(sizes)
        self.memory = mmap.mmap(descriptor, self.nbytes, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._run = self._words(self._run_at, 4 * LINE_BYTES)
        self.lock_holder = self._run[_HOLDER : _HOLDER + 1]
        of_agents = self._words(self._predecessors_at, _AGENT_BYTES * len(sizes.agents))
        self.predecessors, self.elsewhere = of_agents[: len(sizes.agents)], of_agents[len(sizes.agents) :]
        self._tables = [self._table(trainer) for trainer in range(len(sizes.trainers))]
        self._pages = [self._pages_of(trainer) for trainer in range(len(sizes.trainers))]
        self._batches: list[list[Tensor]] = [
            [row[: sizes.batch_bytes] for row in pages.view(sizes.batches, self.batch_stride)] for pages in self._pages
        ]

    @property
    def is_closed(self) -> bool:
        """Whether a trainer has ended the experience: no more is needed."""
        return bool(self._run[_CLOSED])

    @property
    def keepalives(self) -> tuple[int, ...]:
        """A number for each trainer, by rank, that changes with each of its keepalives."""
        return tuple(table[KEEPALIVE] for table in self._tables)

    def close_experience(self) -> None:
        """End the experience."""
        self._run[_CLOSED] = 1

    def table(self, trainer: int) -> memoryview:
        """The words of a trainer, by rank: `LEASED`, `GIVEN_BACK`, `KEEPALIVE`, `HANDLE`, places from `OWNERS`."""
        return self._tables[trainer]

    def unmapped(self, trainer: int) -> memoryview:
        """A word for each agent, by its index in the sizes: whether it has unmapped a trainer's GPU memory."""
        first = OWNERS + self.sizes.places
        return self.table(trainer)[first : first + len(self.sizes.agents)]

    def ring_at(self, agent: int, trainer: int) -> int:
        """The offset of the ring from an agent to a trainer, by their indices in the sizes."""
        return self._rings_at + (agent * len(self.sizes.trainers) + trainer) * ring_bytes(self.sizes.ring_records)

    def parameters(self, notifier: Notifier, patience: int) -> Parameters:
        """The parameters, which the first trainer publishes, for the GMI of this notifier."""
        count = self.sizes.parameter_bytes
        buffers = [self._bytes(self._parameters_at + buffer * in_pages(count), count) for buffer in range(BUFFERS)]
        writer, *others = self.sizes.trainers
        words, readers = self._run[_PARAMETERS:], (*self.sizes.agents, *others, *self.sizes.readers)
        return Parameters(words, buffers, writer, readers, notifier, patience, lambda: self.keepalives)

    def leases(self, lock: SharedLock) -> Leases:
        """The leases of all places, under this memory's lock."""
        return Leases(self._tables, self.sizes.places, lock, lambda: self.is_closed, self.close_experience)

    def batch(self, trainer: int, batch: int) -> Tensor:
        """The memory of a batch, uint8: kind after kind, `[R, *kind.shape]` each."""
        return self._batches[trainer][batch]

    def pages(self, trainer: int) -> Tensor:
        """All batches of a trainer, uint8 `[batches * batch_stride]`: whole pages, which CUDA can register."""
        return self._pages[trainer]

    def _plan(self) -> None:
        sizes = self.sizes
        self._table_bytes = in_pages(8 * (OWNERS + sizes.places + len(sizes.agents)))
        self._run_at = _SEALED.header_bytes(sizes.text)
        self._predecessors_at = self._run_at + in_pages(4 * LINE_BYTES)
        self._tables_at = self._predecessors_at + in_pages(_AGENT_BYTES * len(sizes.agents))
        self._rings_at = self._tables_at + len(sizes.trainers) * self._table_bytes
        pairs = len(sizes.agents) * len(sizes.trainers)
        self._parameters_at = self._rings_at + in_pages(pairs * ring_bytes(sizes.ring_records))
        self._batches_at = self._parameters_at + BUFFERS * in_pages(sizes.parameter_bytes)
        self.batch_stride = in_pages(sizes.batch_bytes)
        self.nbytes = self._batches_at + len(sizes.trainers) * sizes.batches * self.batch_stride

    def check(self, sizes: ChannelSizes) -> None:
        """Raise `UsageError` unless the memory was made for these sizes."""
        if difference := sizes.difference(self._made_for):
            raise UsageError(f"the channels' memory was made for other sizes than this GMI's: {difference}")

    def _table(self, trainer: int) -> memoryview:
        return self._words(self._tables_at + trainer * self._table_bytes, self._table_bytes)

    def _pages_of(self, trainer: int) -> Tensor:
        nbytes = self.sizes.batches * self.batch_stride
        return self._bytes(self._batches_at + trainer * nbytes, nbytes)

    def _words(self, start: int, count: int) -> memoryview:
        return memoryview(self.memory)[start : start + count].cast("q")

    def _bytes(self, start: int, count: int) -> Tensor:
        return torch.frombuffer(self.memory, dtype=torch.uint8, count=count, offset=start)


class MappedOnce:
    """The memories of a host, mapped once for all GMIs that a process is.

    Args:
        memory: Of `create_memory`; the caller closes it.
        mailboxes: Of the GMIs of this host.

    Attributes:
        mailboxes: Their memory.
    """

    def __init__(self, memory: int, mailboxes: Mailboxes) -> None:
        self.mailboxes = MailboxMemory(mailboxes.memory)
        self._memory, self._lock = memory, threading.Lock()
        self._channels: ChannelMemory | None = None

    def channels(self, sizes: ChannelSizes, notifier: Notifier) -> ChannelMemory:
        """The channels' memory. For arguments and errors see `ChannelMemory`; of several GMIs the first one waits."""
        with self._lock:
            if self._channels is None:
                self._channels = ChannelMemory(self._memory, sizes, notifier)
        self._channels.check(sizes)
        return self._channels


def kind_views(sizes: ChannelSizes, batch: Tensor) -> dict[str, Tensor]:
    """The kinds in a batch's memory, by name: `[R, *kind.shape]`, such as `[R, T, N, O]`."""
    return {
        kind.name: batch[start : start + sizes.rollouts * kind.nbytes]
        .view(_DTYPES[kind.dtype])
        .view(sizes.rollouts, *kind.shape)
        for kind, start in zip(sizes.form.kinds, sizes.offsets, strict=False)
    }


def is_made(descriptor: int) -> bool:
    """Whether the first trainer has made the memory of `create_memory`.

    Raises:
        UsageError: If the descriptor is something else.
    """
    return _SEALED.is_made(descriptor)
