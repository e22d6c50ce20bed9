"""Creates what the GMIs of a layout share, before they start: memory, connections and mailboxes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

from gmi_drl.comm.host_links import HostLinks
from gmi_drl.comm.links.handshake import RankAddresses
from gmi_drl.comm.memory.mailbox_memory import Mailboxes, create_mailboxes
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.rendezvous import RendezvousPoints, link_name
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.policies import TRAINERS, policy_names
from gmi_drl.layout.reductions import REDUCTIONS
from gmi_drl.roles.launcher.resources import Resources

Addresses = dict[str, dict[int, tuple[str, int]]]
"""The addresses at which ranks listen, by the name of their group."""


@contextmanager
def shared_resources(layout: Layout, slot_bytes: int, *, links: bool = False) -> Iterator[Mapping[int, Resources]]:
    """Create the shared resources for the time of a `with` block in which the GMIs start. Yields those of each GMI.

    At the end our descriptors are closed: a resource that no process has inherited is freed.

    Args:
        layout: The layout of the GMIs, all on this host.
        slot_bytes: Shared memory for each GMI and group.
        links: As of `HostResources`.

    Raises:
        MachineError: if there is not enough memory, or no descriptor is left.
    """
    with closing(HostResources(layout, slot_bytes, links=links)) as made:
        yield {gmi.id: made[gmi.id] for gmi in layout.gmis}


class HostResources:
    """The shared resources of the GMIs on one host. To be closed when these have started.

    Args:
        layout: The layout of all GMIs, perhaps on several hosts.
        slot_bytes: Shared memory for each GMI and group.
        node: This host's name in the layout.
        host: The address by which other nodes reach this host; None if all GMIs are here.
        links: Whether each group gets a link beside its reduction (`GMI_manager.link`).

    Raises:
        MachineError: if there is not enough memory, or no descriptor is left.
    """

    def __init__(
        self,
        layout: Layout,
        slot_bytes: int,
        node: str | None = None,
        host: str | None = None,
        *,
        links: bool = False,
    ) -> None:
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
                here_alone, at = None if host is None else ranks.values(), host or "127.0.0.1"
                for meant, how in {name: method, link_name(name): None}.items() if links else [(name, method)]:
                    rendezvous = RendezvousPoints(how, mapping, slot_bytes, ranks=here_alone, host=at)
                    self._rendezvous[meant] = undone.enter_context(closing(rendezvous))
                    self._ranks[meant] = ranks
            if host is not None:
                self._links = undone.enter_context(closing(HostLinks(layout, node, host)))
            self._mailboxes = undone.enter_context(closing(create_mailboxes(sorted({*here, *self.guests}))))
            self._guests = {name: self._eventfds(undone) for name in policy_names(layout) if self.guests}
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

    def of_proxies(self, gmis: Sequence[int]) -> Resources:
        """The resources of a process of proxies, of these GMIs."""
        first, *others = [self[gmi_id] for gmi_id in gmis]
        rendezvous = dict(first.rendezvous)
        for one in others:
            rendezvous |= one.rendezvous
        return replace(first, rendezvous=rendezvous)

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
            made = Resources(rendezvous | link, self._mailboxes, own["channels"], own["streams"], guests=self._guests)
            return made if policy is None else made.of_policy(policy)
        of_policies = {str(name): memories for name, memories in self._memories.items()}
        return Resources(rendezvous | link, self._mailboxes, policies=of_policies, guests=self._guests)

    @property
    def guests(self) -> tuple[int, ...]:
        """The GMIs of other hosts that have a proxy here; `[…]` has the resources of these, too."""
        return self._links.proxied if self._links else ()

    def close(self) -> None:
        """Close our descriptors. Processes that have inherited them keep theirs."""
        self._life.close()

    def _eventfds(self, undone: ExitStack) -> dict[int, int]:
        """An eventfd of each guest for one policy: its proxies for several policies must not wake each other only."""
        made = {gmi_id: os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for gmi_id in self.guests}
        for descriptor in made.values():
            undone.callback(os.close, descriptor)
        return made
