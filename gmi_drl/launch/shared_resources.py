"""Creates what the GMIs of a layout share, before they start: memory, connections and mailboxes."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

from gmi_drl.comm.host_links import HostLinks
from gmi_drl.comm.links.handshake import RankAddresses
from gmi_drl.comm.memory.mailbox_memory import Mailboxes, create_mailboxes
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.rendezvous import RendezvousPoints
from gmi_drl.hardware.host_memory import check_available
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.policies import TRAINERS, policy_names
from gmi_drl.layout.reductions import REDUCTIONS
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.units import counted

PROXY_BYTES = 192 * 2**20
"""More memory than the process of a proxy takes. The tests measure it."""

Addresses = dict[str, dict[int, tuple[str, int]]]
"""The addresses at which ranks listen, by the name of their group."""


@contextmanager
def shared_resources(layout: Layout, slot_bytes: int) -> Iterator[Mapping[int, Resources]]:
    """Create the shared resources for the time of a `with` block in which the GMIs start. Yields those of each GMI.

    At the end our descriptors are closed: a resource that no process has inherited is freed.

    Args:
        layout: The layout of the GMIs, all on this host.
        slot_bytes: Shared memory for each GMI and group.

    Raises:
        MachineError: if there is not enough memory, or no descriptor is left.
    """
    with closing(HostResources(layout, slot_bytes)) as made:
        yield {gmi.id: made[gmi.id] for gmi in layout.gmis}


class HostResources:
    """The shared resources of the GMIs on one host. To be closed when these have started.

    Args:
        layout: The layout of all GMIs, perhaps on several hosts.
        slot_bytes: Shared memory for each GMI and group.
        node: This host's name in the layout.
        host: The address by which other nodes reach this host; None if all GMIs are here.

    Raises:
        MachineError: if there is not enough memory, or no descriptor is left.
    """

    def __init__(self, layout: Layout, slot_bytes: int, node: str | None = None, host: str | None = None) -> None:
        here = {gmi.id for device in layout.devices_on(node) for gmi in device.gmis}
        self._rendezvous: dict[str, RendezvousPoints] = {}
        self._ranks: dict[str, dict[int, int]] = {}  # of the GMIs of this host
        self._mailboxes: Mailboxes | None = None
        self._policy_of = {gmi.id: gmi.policy for gmi in layout.gmis}
        self._memories: dict[str | None, dict[str, int | None]] = {}  # of each policy
        self._links: HostLinks | None = None  # of channels that are over several hosts
        with ExitStack() as undone:
            for policy in policy_names(layout) or (None,):
                self._memories[policy] = {"channels": None, "streams": None}
                for what in self._memories[policy]:
                    if getattr(layout, what) is not None:
                        self._memories[policy][what] = memory = create_empty(f"gmi-drl-{what}")
                        undone.callback(os.close, memory)
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
                self._links = undone.enter_context(closing(HostLinks(layout, node, host)))
                _check_room(len(self._links.proxied))
            self._mailboxes = undone.enter_context(closing(create_mailboxes(sorted({*here, *self.guests}))))
            self._life = undone.pop_all()

    @property
    def addresses(self) -> Addresses:
        """The addresses at which the GMIs of this host listen for ranks on others."""
        links = self._links.addresses if self._links else {}
        return {name: rendezvous.addresses for name, rendezvous in self._rendezvous.items()} | links

    def set_addresses(self, addresses: Mapping[str, RankAddresses]) -> None:
        """Give the groups of this host the addresses of all of their ranks."""
        for name, rendezvous in self._rendezvous.items():
            if rendezvous.addresses:
                rendezvous.set_addresses(addresses[name])
        if self._links:
            self._links.set_addresses(addresses)

    def __getitem__(self, gmi_id: int) -> Resources:
        """The resources of a GMI on this host, or of a proxy here, by the GMI's id."""
        ranks = {name: ranks[gmi_id] for name, ranks in self._ranks.items() if gmi_id in ranks}
        rendezvous = {name: self._rendezvous[name][rank] for name, rank in ranks.items()}
        link = self._links.rendezvous_of(gmi_id) if self._links else {}
        policy = self._policy_of[gmi_id]
        if policy is not None:
            rendezvous = dict(zip([TRAINERS], rendezvous.values(), strict=False))  # as its process calls the group
        if policy in self._memories:
            own = self._memories[policy]
            return Resources(rendezvous | link, self._mailboxes, own["channels"], own["streams"])
        of_policies = {str(name): memories for name, memories in self._memories.items()}
        return Resources(rendezvous | link, self._mailboxes, policies=of_policies)

    @property
    def guests(self) -> tuple[int, ...]:
        """The GMIs of other hosts that have a proxy here; `[…]` has the resources of these, too."""
        return self._links.proxied if self._links else ()

    def close(self) -> None:
        """Close our descriptors. Processes that have inherited them keep theirs."""
        self._life.close()


def _check_room(guests: int) -> None:
    """Raise `MachineError` if this host has no memory for this number of proxies."""
    if guests:
        who = f"{counted(guests, 'stand-in')} for agents of other hosts"
        check_available(guests * PROXY_BYTES, who, "use fewer agents, or put trainers where memory is")
