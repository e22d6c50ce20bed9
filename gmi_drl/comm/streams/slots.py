"""The memory of an inference stream: a slot for each client and member of its ring, and the words of all slots.

After the header, in whole pages: two lines of words for each slot, the first written by its client, the second by its
server; then the slots, each with the tensors of a request and of its answer. A client writes a request and then counts
it; the server writes the answer and then notes which request it answers. So a client or a server may be succeeded by
another process at any time: a request that is not answered is answered by the next one, and an answer to a request of
an ended client is seen by nobody.
"""

import mmap
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.sealed import Sealed
from gmi_drl.comm.memory.segment import LINE_BYTES, in_pages
from gmi_drl.comm.streams.sizes import StreamSizes
from gmi_drl.errors import UsageError
from gmi_drl.layout.experience import Kind

POSTED, WHAT, VERSION, POSTED_NS, PROCESSES, HAS_LEFT = range(6)
"""Words of the client: how many requests were posted; what is asked; by which version of the policy at least; the time
(`time.monotonic_ns`); of its first slot also which process of the client this is, from 1, and whether it has left."""

ANSWERED, ANSWER_VERSION, ANSWER_ROWS, ANSWER_NS, WAITED_NS, FETCHED_NS, SERVER_PROCESSES = (
    LINE_BYTES // 8 + word for word in range(7)
)
"""Words of the server: which request was answered; by which version; how many rows the batch had; the time; how long
this process of the server had waited by then for requests, and for versions of the policy; which process of the server
this is, from 1."""

SLOT_WORDS = 2 * LINE_BYTES // 8

LINE_WORDS = LINE_BYTES // 8
"""Words of a line: a slot has one that its client writes, and one that its server writes."""

REMEDY = "use fewer actors, environments or members of rings"

_SEALED = Sealed(b"gmi-str1", "the inference stream")


class Slots:
    """Words and slots of a stream in some memory of this process.

    Args:
        memory: Zeroed at first.
        start: Where the words begin.
        sizes: Of all that lies in it.

    Attributes:
        words: Those of all slots, `[slots * SLOT_WORDS]`.
        table: The same words as `[slots, SLOT_WORDS]`, to look at all slots at once.
    """

    def __init__(self, memory: mmap.mmap, start: int, sizes: StreamSizes) -> None:
        self.sizes, self._memory = sizes, memory
        self._slots_at = start + _words_bytes(sizes)
        words = memoryview(memory)[start : start + 8 * SLOT_WORDS * sizes.slots]
        self.words = words.cast("q")
        self.table = np.frombuffer(words, dtype=np.int64).reshape(sizes.slots, SLOT_WORDS)

    @property
    def slots(self) -> Tensor:
        """All slots, uint8: whole pages, which CUDA can register."""
        count = self.sizes.slots * self.sizes.slot_bytes
        return torch.frombuffer(self._memory, dtype=torch.uint8, count=count, offset=self._slots_at)

    def request(self, slot: int) -> dict[str, Tensor]:
        """The tensors of a slot's request, by name."""
        return self._views(slot, self.sizes.request, self.sizes.offsets)

    def answer(self, slot: int) -> dict[str, Tensor]:
        """The tensors of a slot's answer, by name."""
        return self._views(slot, self.sizes.answer, self.sizes.offsets[len(self.sizes.request) :])

    def half(self, slot: int, *, of_request: bool) -> memoryview:
        """The bytes of a slot's request, or those of its answer."""
        offsets, count = self.sizes.offsets, len(self.sizes.request)
        first, last = (0, offsets[count]) if of_request else (offsets[count], offsets[-1])
        start = self._slots_at + slot * self.sizes.slot_bytes
        return memoryview(self._memory)[start + first : start + last]

    def _views(self, slot: int, kinds: Sequence[Kind], offsets: Sequence[int]) -> dict[str, Tensor]:
        start = self._slots_at + slot * self.sizes.slot_bytes
        return {
            kind.name: torch.frombuffer(self._memory, dtype=torch.uint8, count=kind.nbytes, offset=start + offset)
            .view(getattr(torch, kind.dtype))
            .view(kind.shape)
            for kind, offset in zip(kinds, offsets, strict=False)
        }


class StreamMemory(Slots):
    """The memory of a stream, mapped in this process. The first server sizes and seals it; the others wait for that.

    Args:
        descriptor: Of `memory.segment.create_empty`; the caller closes it after the last use of this object.
        sizes: Of all that lies in it.
        notifier: Of this GMI.

    Raises:
        UsageError: If the descriptor is something else, or the memory was made for other sizes.
        MachineError: If there is not enough memory.
        PeerDiedError: If the first server ended before it had made it.
        PeerSilentError: If it has not made it within `hang_s`.
    """

    def __init__(self, descriptor: int, sizes: StreamSizes, notifier: Notifier) -> None:
        start = _SEALED.header_bytes(sizes.text)
        self.nbytes = start + _words_bytes(sizes) + sizes.slots * sizes.slot_bytes
        maker, *_ = sizes.servers
        if notifier.own == maker and not _SEALED.is_made(descriptor):
            _SEALED.make(descriptor, self.nbytes, sizes.text, REMEDY)
            notifier.notify_here((*sizes.servers, *sizes.all_clients))
        else:
            notifier.wait(lambda: _SEALED.is_made(descriptor), maker, "made the memory of the stream")
            if difference := sizes.difference(_SEALED.description(descriptor)):
                raise UsageError(f"the stream's memory was made for other sizes than this GMI's: {difference}")
        super().__init__(mmap.mmap(descriptor, self.nbytes, mmap.MAP_SHARED | mmap.MAP_POPULATE), start, sizes)


def own_slots(sizes: StreamSizes) -> Slots:
    """Slots in memory of this process alone, for a client whose server is on another host."""
    return Slots(mmap.mmap(-1, _words_bytes(sizes) + sizes.slots * sizes.slot_bytes), 0, sizes)


def _words_bytes(sizes: StreamSizes) -> int:
    return in_pages(8 * SLOT_WORDS * sizes.slots)
