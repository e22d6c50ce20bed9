"""The compressor: experience goes to a trainer's device in large copies (paper section 4.2)."""

import torch
from torch import Tensor

from gmi_drl.comm.channels.batcher import Batcher
from gmi_drl.comm.channels.batches import Batches, HostBatches
from gmi_drl.comm.channels.channel_memory import ChannelMemory, kind_views
from gmi_drl.comm.channels.gpu_direct import share_batches
from gmi_drl.comm.channels.records import Record
from gmi_drl.comm.memory.pinned import await_stream, register, unregister
from gmi_drl.comm.memory.side_copies import SideCopies


class DeviceBatches(Batches):
    """Batches on another device: copied when something has arrived, while the trainer learns.

    Under MCC a kind whose rollout is less than a transfer is copied at once for all rollouts of a batch, when all have
    arrived; a larger kind as its transfers arrive. Under UCC every tensor of every step is a copy of its own. If some
    agents are direct, the rollouts of the others are copied one by one.
    """

    def __init__(self, memory: ChannelMemory, trainer: int, batcher: Batcher, device: torch.device) -> None:
        self._sizes, self._batcher = memory.sizes, batcher
        self._kinds = self._sizes.form.kinds
        self._direct = self._sizes.direct_to(trainer)
        sources = [memory.batch(trainer, batch) for batch in range(self._sizes.batches)]
        self._registered: Tensor | None = None
        if device.type == "cuda" and len(self._direct) < len(self._sizes.agents):
            pages = memory.pages(trainer)
            self._registered = pages if register(pages) else None
        if self._direct:
            targets = share_batches(memory, trainer, device)
        else:
            targets = [torch.empty_like(source, device=device) for source in sources]
        self._batches = [(target, kind_views(self._sizes, target)) for target in targets]
        self._pairs = list(zip(sources, targets, strict=True))
        is_mcc = self._sizes.channels.mode == "MCC"
        goes_together = is_mcc and not self._direct
        self._goes_together = [goes_together and self._is_one_transfer(number) for number in range(len(self._kinds))]
        self._device, self._copies = device, SideCopies(device, self._sizes.batches)

    def arrived(self, gmi: int, record: Record, is_kind_whole: bool) -> None:
        """Copy what has arrived, or wait for the rest of it. A direct agent's steps are on the device already."""
        if gmi in self._direct:
            return
        place, _, kind, first, last = record
        number, row = divmod(place, self._sizes.rollouts)
        if not self._goes_together[kind]:
            self._copy(number, self._sizes.span(kind, row, first, last))
        elif is_kind_whole and self._batcher.is_kind_whole(number, kind):
            start = self._sizes.offsets[kind]
            self._copy(number, slice(start, start + self._sizes.rollouts * self._kinds[kind].nbytes))

    def whole(self, batch: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The device's own memory."""
        self._copies.use(batch)
        return self._batches[batch]

    def give_back(self, batch: int) -> None:
        """Order the next copies into the batch after all work that reads it. Their sources may then be overwritten.

        The host waits for the copies, and for the work that reads the batch if agents write to it. Both are short: the
        new version was published before places are given back.
        """
        if self._direct:
            await_stream(self._device)
        self._copies.release(batch)

    def close(self) -> None:
        """Wait for the copies, and free the memory."""
        self._copies.close()
        if self._registered is not None:
            unregister(self._registered)
        self._pairs.clear()
        self._batches.clear()

    def _is_one_transfer(self, kind: int) -> bool:
        return self._sizes.steps_of_transfer(self._kinds[kind]) == self._sizes.steps_of(self._kinds[kind])

    def _copy(self, number: int, span: slice) -> None:
        batch = number % self._sizes.batches
        source, target = self._pairs[batch]
        self._copies.start(batch, source[span], target[span])


def open_batches(memory: ChannelMemory, trainer: int, batcher: Batcher, device: torch.device) -> Batches:
    """The batches of a trainer, by its rank, on its device."""
    if device.type == "cpu" and not memory.sizes.direct_to(trainer):
        return HostBatches(memory, trainer)
    return DeviceBatches(memory, trainer, batcher, device)
