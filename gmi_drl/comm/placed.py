"""A group whose ranks know on which device each is: they share memory within a device, and a link joins all."""

from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from gmi_drl.comm.group import check_values
from gmi_drl.comm.meeting import Meeting
from gmi_drl.comm.neighbours import Neighbours
from gmi_drl.comm.sockets import SocketLink
from gmi_drl.errors import UsageError
from gmi_drl.mapping import Mapping, check_mapping
from gmi_drl.memory.peers import BARRIER, GATHER, call_word


@dataclass(frozen=True)
class Place:
    """Where a rank meets the others.

    Args:
        mapping: The ranks of each device, e.g. `[[0, 1], [2, 3]]`.
        meeting: What all ranks are told of each other.
        listener_fd: Where this rank listens (`meeting.listen`).
        segment_fd: The memory of this rank's device: `create_segment(ranks of this device, slot_bytes)`, with slots as
            large on all devices.
    """

    mapping: Mapping
    meeting: Meeting
    listener_fd: int
    segment_fd: int


class PlacedGroup:
    """A `Group` that meets over its link; the ranks of a device share rows for the numbers of a reduction.

    Both descriptors stay the caller's to close.

    Args:
        rank: This process.
        size: Processes in the group.
        place: Where it meets the others.
        hang_s: Seconds after which a peer that lives counts as silent.

    Attributes:
        mapping: The ranks of each device.
        link: To all ranks.
        neighbours: What this rank shares with those of its device.

    Raises:
        UsageError: If mapping, meeting or segment are not for this group.
        PeerDiedError, PeerSilentError: If another rank does not come.
    """

    def __init__(self, rank: int, size: int, place: Place, hang_s: float) -> None:
        check_mapping(place.mapping)
        if sorted(chain.from_iterable(place.mapping)) != list(range(size)) or len(place.meeting.addresses) != size:
            addresses = len(place.meeting.addresses)
            raise UsageError(
                f"{size} ranks need a mapping of ranks 0 to {size - 1} and as many addresses, not {place.mapping} and "
                f"{addresses} addresses"
            )
        self.rank = rank
        self.size = size
        self.mapping = place.mapping
        self.link = SocketLink(rank, place.meeting, place.listener_fd, hang_s)
        own = next(ranks for ranks in place.mapping if rank in ranks)
        try:
            self.neighbours = Neighbours(self.link, own, place.segment_fd)
        except BaseException:
            self.link.close()
            raise

    @property
    def wait_s(self) -> float:
        """Seconds at the link, which does not tell waiting from moving data, and waiting for neighbours."""
        return self.link.wait_s + self.neighbours.wait_s

    def gather(self, values: Tensor) -> Tensor:
        """The vectors of all ranks; see `Group`."""
        check_values(values)
        everyone = torch.empty(self.size, values.numel(), dtype=torch.float64, device="cpu")
        everyone[self.rank] = values.detach()
        self.link.meet(call_word(GATHER, values.numel()))
        others = [rank for rank in range(self.size) if rank != self.rank]
        self.link.move(dict.fromkeys(others, everyone[self.rank]), {rank: everyone[rank] for rank in others})
        return everyone

    def barrier(self) -> None:
        """Wait for all; see `Group`."""
        self.link.meet(BARRIER)

    def close(self) -> None:
        """Leave the others; see `Group`."""
        self.neighbours.close()
        self.link.close()
