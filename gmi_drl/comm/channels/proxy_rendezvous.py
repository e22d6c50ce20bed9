"""Where agents that send experience to another host meet their proxies there.

The trainers of a pool share a host, which holds the memory of its channels. A proxy is a process of that host which
does there what an agent of another host requests over a connection (`comm.channels.proxy`).
"""

import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack

from gmi_drl.comm.links.handshake import RankAddresses, listen
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import MachineError
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.pools import far_agents

AGENT, PROXY = 0, 1
"""The ranks of this connection. A rank connects to those below it, so a proxy sees at once if its agent died."""


def are_on_one_node(layout: Layout, gmi_id: int, other: int) -> bool:
    """Whether two GMIs share a host."""
    return layout.device_of(gmi_id).node == layout.device_of(other).node


def can_receive_from(layout: Layout, gmi_id: int, other: int) -> bool:
    """Whether messages of GMI `other` reach a GMI: the other one, or its proxy that forwards them, is on its host."""
    if are_on_one_node(layout, gmi_id, other):
        return True
    pool = far_agents(layout).get(other)
    return pool is not None and pool.node == layout.device_of(gmi_id).node


def proxy_group_name(gmi_id: int) -> str:
    """The name of the connection of an agent and its proxy among the names of groups, which have no spaces."""
    return f"channels of GMI {gmi_id}"


def proxy_membership(gmi_id: int, rank: int, home: str | None, hang_s: float) -> Membership:
    """One end of the connection of an agent and its proxy; it has the names of both for errors."""
    names = f"GMI {gmi_id}", f"the proxy of GMI {gmi_id} with its trainers on node {home}"
    return Membership(rank, [[AGENT], [PROXY]], names, hang_s)


class ProxyRendezvous:
    """The rendezvous of agents and proxies on one host.

    Close it when the processes that use it are started, like `RendezvousPoints`.

    Args:
        layout: Of all GMIs.
        node: The host's name in it.
        host: The address by which other hosts reach it.

    Attributes:
        proxied: The agents of other hosts that have a proxy here.

    Raises:
        MachineError: If there are too many descriptors.
    """

    def __init__(self, layout: Layout, node: str | None, host: str) -> None:
        far = far_agents(layout)
        self.proxied = tuple(gmi_id for gmi_id, pool in far.items() if pool.node == node)
        sent = [gmi_id for gmi_id in far if layout.device_of(gmi_id).node == node]
        self._addresses: dict[int, int] = {}
        with ExitStack() as undone:
            try:
                self._listeners: dict[int, socket.socket] = {
                    gmi_id: undone.enter_context(listen(host)) for gmi_id in (*self.proxied, *sent)
                }
            except OSError as error:
                why = f"sockets for agents of other nodes cannot be made: {error.strerror} (ulimit -n)"
                raise MachineError(f"{why}: use fewer agents") from error
            self._life = undone.pop_all()

    @property
    def addresses(self) -> dict[str, dict[int, tuple[str, int]]]:
        """Where each end on this host listens, by the connection's name and the end's rank."""
        ranks = {gmi_id: PROXY if gmi_id in self.proxied else AGENT for gmi_id in self._listeners}
        return {proxy_group_name(gmi_id): {ranks[gmi_id]: one.getsockname()} for gmi_id, one in self._listeners.items()}

    def set_addresses(self, ranks: Mapping[str, RankAddresses]) -> None:
        """Give both ends the addresses of each connection."""
        for gmi_id in self._listeners:
            self._addresses[gmi_id] = written = ranks[proxy_group_name(gmi_id)].to_descriptor()
            self._life.callback(os.close, written)

    def rendezvous_of(self, gmi_id: int) -> dict[str, Rendezvous]:
        """The rendezvous of an agent on this host, or of its proxy, by the connection's name; empty if it has none."""
        if gmi_id not in self._listeners:
            return {}
        return {
            proxy_group_name(gmi_id): Rendezvous(
                listener=self._listeners[gmi_id].fileno(), addresses=self._addresses.get(gmi_id)
            )
        }

    def close(self) -> None:
        """Close the descriptors; processes that have inherited them keep theirs."""
        self._life.close()
