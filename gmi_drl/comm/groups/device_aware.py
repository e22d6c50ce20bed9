"""A group whose ranks know on which device each is: they share memory within a device, and a link joins all."""

import zlib
from contextlib import ExitStack, closing

import torch
from torch import Tensor

from gmi_drl.comm.group import check_values
from gmi_drl.comm.groups.local_ranks import LocalRanks
from gmi_drl.comm.links.handshake import RankAddresses
from gmi_drl.comm.links.sockets import SocketLink
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import BARRIER, GATHER, OPEN, call_code
from gmi_drl.comm.rendezvous import Rendezvous


class DeviceAwareGroup:
    """A `Group` that meets over its link; the ranks of a device share memory for the vectors of a reduction.

    Args:
        member: This process.
        rendezvous: With the segment of this device's ranks, a listener and the addresses.

    Attributes:
        mapping: The ranks of each device.
        link: To all ranks.
        local: The ranks of this device and their shared memory.

    Raises:
        UsageError: If the rendezvous is not for this group, or other ranks have another mapping or slot size.
        PeerDiedError, PeerSilentError: If another rank does not connect.
    """

    def __init__(self, member: Membership, rendezvous: Rendezvous) -> None:
        assert rendezvous.segment is not None and rendezvous.listener is not None and rendezvous.addresses is not None
        self.rank = member.rank
        self.size = member.size
        self.mapping = member.mapping
        with ExitStack() as opened:
            self.link = opened.enter_context(
                closing(SocketLink(member, RankAddresses.from_descriptor(rendezvous.addresses), rendezvous.listener))
            )
            self.local = opened.enter_context(closing(LocalRanks(self.link, member, rendezvous.segment)))
            self.link.sync(call_code(OPEN, self._plan()))
            opened.pop_all()  # `close` does it

    @property
    def wait_s(self) -> float:
        """Seconds in the link, where waiting and moving data are not told apart, and waiting for local ranks."""
        return self.link.wait_s + self.local.wait_s

    def gather(self, values: Tensor) -> Tensor:
        """The vectors of all ranks; see `Group`."""
        check_values(values)
        everyone = torch.empty(self.size, values.numel(), dtype=torch.float64, device="cpu")
        everyone[self.rank] = values.detach()
        self.link.sync(call_code(GATHER, values.numel()))
        others = [rank for rank in range(self.size) if rank != self.rank]
        self.link.move(dict.fromkeys(others, everyone[self.rank]), {rank: everyone[rank] for rank in others})
        return everyone

    def barrier(self) -> None:
        """Wait for all; see `Group`."""
        self.link.sync(BARRIER)

    def close(self) -> None:
        """Close link and shared memory; see `Group`."""
        self.local.close()
        self.link.close()

    def _plan(self) -> int:
        """A checksum of mapping and slot size. If they differed, ranks would wait for data that nobody sends."""
        mapping = [list(ranks) for ranks in self.mapping]
        return zlib.crc32(repr((mapping, self.local.rows.slots.shape[1])).encode())
