"""Where processes of two hosts meet: agents and their proxies, actors and their policy workers.

The trainers of a pool share a host, which holds the memory of its channels. A proxy is a process of that host which
does there what an agent of another host requests over a connection (`comm.channels.proxy`), or sends a policy worker of
another host the parameters (`comm.parameters.proxy`). An actor and its policy worker connect directly.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.links.handshake import PeerListener, RankAddresses, connect_ranks, listen
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import MachineError
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.policies import layouts_of
from gmi_drl.layout.pools import far_readers, proxied
from gmi_drl.layout.servers import far_clients

PROXY, AGENT = 0, 1
"""The ranks of this connection. A rank connects to those below it, so an agent may come when it likes."""

MESSAGE_BYTES = 2**20
"""The most bytes of a message, more than the sizes of channels or of a stream with 100,000 agents."""

SERVER, CLIENT = 0, 1
"""The ranks of the connection of an actor and its policy worker: also here the actor may come later."""


@dataclass(frozen=True)
class Link:
    """A connection of two processes on two hosts.

    Args:
        name: Among the names of groups, which have no spaces.
        ends: By rank the GMI that an end is, or is the proxy of, and its node.
    """

    name: str
    ends: tuple[tuple[int, str | None], tuple[int, str | None]]


def links_of(layout: Layout) -> tuple[Link, ...]:
    """All connections of this kind in a layout."""

    def end(gmi_id: int) -> tuple[int, str | None]:
        return gmi_id, layout.device_of(gmi_id).node

    links = []
    for policy, seen in layouts_of(layout).items():
        for gmi_id, pool in proxied(seen).items():
            links.append(Link(name_for(policy, proxy_group_name(gmi_id)), ((gmi_id, pool.node), end(gmi_id))))
        for client, service in far_clients(seen).items():
            server = service.server_of(client)
            links.append(Link(name_for(policy, stream_link_name(client)), (end(server), end(client))))
    return tuple(links)


def are_on_one_node(layout: Layout, gmi_id: int, other: int) -> bool:
    """Whether two GMIs share a host."""
    return layout.device_of(gmi_id).node == layout.device_of(other).node


def can_receive_from(layout: Layout, gmi_id: int, other: int) -> bool:
    """Whether messages of GMI `other` reach a GMI: the other one, or its proxy that forwards them, is on its host."""
    if are_on_one_node(layout, gmi_id, other):
        return True
    pool = proxied(layout).get(other)
    return pool is not None and pool.node == layout.device_of(gmi_id).node


def can_send_to(layout: Layout, gmi_id: int, other: int) -> bool:
    """Whether messages of a GMI reach GMI `other`: that, or the proxy by which it reads parameters, is on its host."""
    return are_on_one_node(layout, gmi_id, other) or (
        other in far_readers(layout) and can_receive_from(layout, gmi_id, other)
    )


def proxy_group_name(gmi_id: int) -> str:
    """The name of the connection of a GMI and its proxy among the names of groups, which have no spaces."""
    return f"channels of GMI {gmi_id}"


def name_for(policy: str | None, name: str) -> str:
    """The name of a connection among those of several policies. See `Resources.of_policy`."""
    return name if policy is None else f"{name} for {policy}"


def stream_link_name(client: int) -> str:
    """The name of the connection of an actor and its policy worker."""
    return f"stream of GMI {client}"


def proxy_membership(gmi_id: int, rank: int, home: str | None, hang_s: float, predecessors: int = 0) -> Membership:
    """One end of the connection of a GMI and its proxy; it has the names of both for errors."""
    names = f"the proxy of GMI {gmi_id} with its trainers on node {home}", f"GMI {gmi_id}"
    return Membership(rank, [[PROXY], [AGENT]], names, hang_s, predecessors=predecessors)


def stream_membership(client: int, server: int, rank: int, hang_s: float, predecessors: int = 0) -> Membership:
    """One end of the connection of an actor and its policy worker."""
    names = f"GMI {server}", f"GMI {client}"
    return Membership(rank, [[SERVER], [CLIENT]], names, hang_s, predecessors=predecessors)


def connect(member: Membership, rendezvous: Rendezvous) -> FramedConnection:
    """Connect one end of a link to the other, which is not trusted. For errors see `links.handshake.connect_ranks`."""
    assert rendezvous.addresses is not None and rendezvous.listener is not None
    (connection,) = connect_ranks(
        member, RankAddresses.from_descriptor(rendezvous.addresses), rendezvous.listener, MESSAGE_BYTES
    ).values()
    return connection


def listen_again(member: Membership, rendezvous: Rendezvous) -> PeerListener:
    """Accept the other end of a link as often as it connects; this one has the lower rank."""
    assert rendezvous.addresses is not None and rendezvous.listener is not None
    return PeerListener(member, RankAddresses.from_descriptor(rendezvous.addresses), rendezvous.listener, MESSAGE_BYTES)


class HostLinks:
    """The connections of the GMIs and proxies on one host.

    Close it when the processes that use it are started, like `RendezvousPoints`.

    Args:
        layout: Of all GMIs.
        node: The host's name in it.
        host: The address by which other hosts reach it.

    Attributes:
        proxied: The GMIs of other hosts that have a proxy here.

    Raises:
        MachineError: If there are too many descriptors.
    """

    def __init__(self, layout: Layout, node: str | None, host: str) -> None:
        self.proxied = tuple(gmi_id for gmi_id, pool in proxied(layout).items() if pool.node == node)
        ends = [
            (link.name, rank, gmi_id)
            for link in links_of(layout)
            for rank, (gmi_id, there) in enumerate(link.ends)
            if there == node
        ]
        self._ranks = {name: rank for name, rank, _ in ends}
        self._names: dict[int, list[str]] = {}
        for name, _, gmi_id in ends:
            self._names.setdefault(gmi_id, []).append(name)
        self._addresses: dict[str, int] = {}
        with ExitStack() as undone:
            try:
                self._listeners: dict[str, socket.socket] = {
                    name: undone.enter_context(listen(host)) for name in self._ranks
                }
            except OSError as error:
                why = f"sockets for agents of other nodes cannot be made: {error.strerror} (ulimit -n)"
                raise MachineError(f"{why}: use fewer agents") from error
            self._life = undone.pop_all()

    @property
    def addresses(self) -> dict[str, dict[int, tuple[str, int]]]:
        """Where each end on this host listens, by the connection's name and the end's rank."""
        return {name: {self._ranks[name]: one.getsockname()} for name, one in self._listeners.items()}

    def set_addresses(self, ranks: Mapping[str, RankAddresses]) -> None:
        """Give both ends the addresses of each connection."""
        for name in self._listeners:
            self._addresses[name] = written = ranks[name].to_descriptor()
            self._life.callback(os.close, written)

    def rendezvous_of(self, gmi_id: int) -> dict[str, Rendezvous]:
        """The rendezvous of a GMI on this host, or of its proxy, by the connection's name; empty if it has none."""
        return {
            name: Rendezvous(listener=self._listeners[name].fileno(), addresses=self._addresses.get(name))
            for name in self._names.get(gmi_id, ())
        }

    def close(self) -> None:
        """Close the descriptors; processes that have inherited them keep theirs."""
        self._life.close()
