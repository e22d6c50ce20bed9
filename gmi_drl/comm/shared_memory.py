"""A group of processes of one host that share a segment of memory."""

import time

import torch
from torch import Tensor

from gmi_drl.comm.group import check_values
from gmi_drl.errors import UsageError
from gmi_drl.memory.peers import BARRIER, GATHER, Peers, call_word
from gmi_drl.memory.segment import LINE_BYTES, STAGING_BYTES, first_slot, map_segment


class SharedMemoryGroup:
    """A `Group` over a segment of `memory.create_segment`.

    Args:
        rank: This process.
        size: Processes in the group.
        fd: The segment's descriptor, inherited from the parent; it stays the caller's to close.
        hang_s: Seconds after which a peer that lives counts as silent.

    Attributes:
        slots: float32 `[size, slot_bytes / 4]`: one for each rank, of whole pages.
        staging: float32 `[size, STAGING_BYTES / 4]`: for what passes through in pieces.

    Raises:
        UsageError: If the descriptor is no segment for `size` ranks.
        PeerSilentError: If the others have not opened theirs within `hang_s`.
    """

    def __init__(self, rank: int, size: int, fd: int, hang_s: float) -> None:
        self.rank = rank
        self.size = size
        self.wait_s = 0.0
        memory, slot_bytes = map_segment(fd, size)
        data = torch.frombuffer(memory, dtype=torch.uint8)[first_slot(size) :].view(size, slot_bytes + STAGING_BYTES)
        self.slots = data[:, :slot_bytes].view(torch.float32)
        self.staging = data[:, slot_bytes:].view(torch.float32)
        self._slots_are_given = False
        self._peers = Peers(memory, LINE_BYTES, rank, size, hang_s)

    def give_slots(self) -> None:
        """Let a reduction have the slots.

        Raises:
            UsageError: If another has them.
        """
        if self._slots_are_given:
            raise UsageError("this group has a reduction already, whose bucket lies in the slots: open another group")
        self._slots_are_given = True

    def gather(self, values: Tensor) -> Tensor:
        """The vectors of all ranks; see `Group`."""
        check_values(values)
        staging = self.staging.view(torch.float64)
        everyone = torch.empty(self.size, values.numel(), dtype=torch.float64)
        call = call_word(GATHER, values.numel())
        for place in in_pieces(values.numel(), staging.shape[1]):
            part = values.detach()[place]
            staging[self.rank, : part.numel()] = part
            self.meet(call)
            everyone[:, place] = staging[:, : part.numel()]
            self.meet(call)
        return everyone

    def barrier(self) -> None:
        """Wait for all; see `Group`."""
        self.meet(BARRIER)

    def meet(self, call: int) -> None:
        """Wait for all, who must come for the same (`call_word`)."""
        started = time.perf_counter()
        self._peers.meet(call)
        self.wait_s += time.perf_counter() - started

    def close(self) -> None:
        """Stop watching the peers; see `Group`."""
        self._peers.close()


def in_pieces(numel: int, step: int) -> list[slice]:
    """A whole vector. One without numbers is one piece: for it, too, all ranks come together."""
    return pieces(0, numel, step) or [slice(0, 0)]


def pieces(first: int, last: int, step: int) -> list[slice]:
    """The range in consecutive parts of at most `step`."""
    return [slice(start, min(start + step, last)) for start in range(first, last, step)]
