"""What the GMIs of a layout share: memory, connections and mailboxes, made before they start."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

from gmi_drl.comm.channels.proxy_rendezvous import ProxyRendezvous
from gmi_drl.comm.links.handshake import RankAddresses
from gmi_drl.comm.memory.mailbox_memory import Mailboxes, create_mailboxes
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.rendezvous import RendezvousPoints
from gmi_drl.hardware.host_memory import check_available
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.reductions import REDUCTIONS
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.units import counted

PROXY_BYTES = 192 * 2**20
"""More than a process takes that stands in for an agent of another host, which the tests measure."""

Addresses = dict[str, dict[int, tuple[str, int]]]
"""Where ranks listen, by the name of their group."""


@contextmanager
def shared_resources(layout: Layout, slot_bytes: int) -> Iterator[Mapping[int, Resources]]:
    """Make them for the time of a `with` block in which the GMIs are started; yields those of each GMI, by its id.

    What nobody has inherited by its end is gone.

    Args:
        layout: Of the GMIs, all on this host.
        slot_bytes: Shared memory for each GMI and group.

    Raises:
        MachineError: If there is no room for it, or there are too many descriptors.
    """
    with closing(HostResources(layout, slot_bytes)) as made:
        yield {gmi.id: made[gmi.id] for gmi in layout.gmis}


class HostResources:
    """What the GMIs of one host share, of a layout that may be over several. To be closed when they are started.

    Args:
        layout: Of all GMIs.
        slot_bytes: Shared memory for each GMI and group.
        node: This host's name in the layout.
        host: The address by which other nodes reach it; None where all GMIs are here.

    Raises:
        MachineError: If there is no room for it, or there are too many descriptors.
    """

    def __init__(self, layout: Layout, slot_bytes: int, node: str | None = None, host: str | None = None) -> None:
        here = {gmi.id for device in layout.devices_on(node) for gmi in device.gmis}
        self._rendezvous: dict[str, RendezvousPoints] = {}
        self._ranks: dict[str, dict[int, int]] = {}  # of the GMIs of this host
        self._mailboxes: Mailboxes | None = None
        self._channels: int | None = None
        self._crossings: ProxyRendezvous | None = None  # of channels that are over several hosts
        with ExitStack() as undone:
            if layout.channels is not None:
                self._channels = create_empty("gmi-drl-channels")
                undone.callback(os.close, self._channels)
            for name, group in layout.groups.items():
                ranks = {gmi_id: rank for rank, gmi_id in enumerate(group.members) if gmi_id in here}
                if len(group.members) == 1 or not ranks:
                    continue
                method, mapping = REDUCTIONS.find(group.reduction), layout.ranks_by_device(name)
                rendezvous = (
                    RendezvousPoints(method, mapping, slot_bytes)
                    if host is None
                    else RendezvousPoints(method, mapping, slot_bytes, ranks=ranks.values(), host=host)
                )
                self._rendezvous[name] = undone.enter_context(closing(rendezvous))
                self._ranks[name] = ranks
            if host is not None:
                self._crossings = undone.enter_context(closing(ProxyRendezvous(layout, node, host)))
                _check_room(len(self._crossings.proxied))
            self._mailboxes = undone.enter_context(closing(create_mailboxes(sorted({*here, *self.guests}))))
            self._life = undone.pop_all()

    @property
    def addresses(self) -> Addresses:
        """Where the GMIs of this host listen for others, by their ranks."""
        crossings = self._crossings.addresses if self._crossings else {}
        return {name: rendezvous.addresses for name, rendezvous in self._rendezvous.items()} | crossings

    def meet(self, meetings: Mapping[str, RankAddresses]) -> None:
        """Tell the groups of this host where all ranks of theirs listen."""
        for name, rendezvous in self._rendezvous.items():
            if rendezvous.addresses:
                rendezvous.set_addresses(meetings[name])
        if self._crossings:
            self._crossings.set_addresses(meetings)

    def __getitem__(self, gmi_id: int) -> Resources:
        """Those of one GMI of this host, or of who stands in for one here."""
        ranks = {name: ranks[gmi_id] for name, ranks in self._ranks.items() if gmi_id in ranks}
        rendezvous = {name: self._rendezvous[name][rank] for name, rank in ranks.items()}
        crossing = self._crossings.rendezvous_of(gmi_id) if self._crossings else {}
        return Resources(rendezvous | crossing, self._mailboxes, self._channels)

    @property
    def guests(self) -> tuple[int, ...]:
        """The GMIs of other hosts for which somebody stands in here; `[…]` has what that needs, too."""
        return self._crossings.proxied if self._crossings else ()

    def close(self) -> None:
        """Close the descriptors; who has inherited them keeps theirs."""
        self._life.close()


def _check_room(guests: int) -> None:
    """Raise `MachineError` where this host has no memory for who stands in for so many agents of others."""
    if guests:
        who = f"{counted(guests, 'stand-in')} for agents of other hosts"
        check_available(guests * PROXY_BYTES, who, "use fewer agents, or put trainers where memory is")
