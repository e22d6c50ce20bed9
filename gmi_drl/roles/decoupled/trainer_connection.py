"""How an agent reaches the trainers of its pool: through shared memory, or through its proxy on their host."""

from typing import Protocol

from gmi_drl.comm.channels import AgentEnd, ChannelSizes, join_as_agent
from gmi_drl.comm.channels.remote_agent import RemoteAgentEnd
from gmi_drl.comm.channels.remote_protocol import FORWARD, RECIPIENT
from gmi_drl.comm.channels.remote_sender import RemoteSender
from gmi_drl.comm.host_links import AGENT, PROXY, connect, proxy_group_name, proxy_membership
from gmi_drl.layout.pools import pool_of
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.peer import Peer


class TrainerConnection(Protocol):
    """One agent's connection to the trainers of its pool."""

    def broadcast(self, text: str) -> None:
        """Send a text to all trainers of the pool."""

    def open(self, sizes: ChannelSizes) -> AgentEnd:
        """Wait for the channels' memory, for as long as other simulators may load. Returns the agent's end."""


class LocalConnection:
    """Through the shared memory of the host.

    Args:
        mgr: Of the agent.
    """

    def __init__(self, mgr: GMI_manager) -> None:
        self._mgr, self._trainers = mgr, pool_of(mgr.layout, mgr.gmi.id).trainers

    def broadcast(self, text: str) -> None:
        """See `TrainerConnection`."""
        for trainer in self._trainers:
            Peer(self._mgr, trainer).send(text)

    def open(self, sizes: ChannelSizes) -> AgentEnd:
        """See `TrainerConnection`. The first trainer announces the memory; a restarted agent does not wait for that."""
        mgr = self._mgr
        if not mgr.predecessors:
            Peer(mgr, self._trainers[0]).receive(LOADING_S)
        return join_as_agent(
            *mgr.channel_memory, mgr.gmi.id, sizes, mgr.hang_s, mgr.device, mgr.predecessors, mgr.waits
        )


class RemoteConnection:
    """Through the agent's proxy on the host of the trainers, connected at once: simulators may load for long.

    Args:
        mgr: Of the agent.

    Raises:
        PeerDiedError: If the proxy has ended.
        PeerSilentError: If it does not connect within `hang_s`.
    """

    def __init__(self, mgr: GMI_manager) -> None:
        pool = pool_of(mgr.layout, mgr.gmi.id)
        self._mgr, self._trainers = mgr, pool.trainers
        member = proxy_membership(mgr.gmi.id, AGENT, pool.node, mgr.hang_s, mgr.predecessors)
        connection = connect(member, mgr.resources.rendezvous[proxy_group_name(mgr.gmi.id)])
        self._sender = RemoteSender(connection, member.name(PROXY), member.name(AGENT))

    def broadcast(self, text: str) -> None:
        """See `TrainerConnection`."""
        for trainer in self._trainers:
            self._sender.send(FORWARD, RECIPIENT.pack(trainer) + text.encode())

    def open(self, sizes: ChannelSizes) -> RemoteAgentEnd:
        """See `TrainerConnection`. The proxy announces the memory, and sends parameters only to a GMI that acts."""
        mgr = self._mgr
        acts = "agent" in mgr.gmi.roles
        return RemoteAgentEnd(
            self._sender,
            sizes,
            mgr.hang_s,
            mgr.waits.behind,
            LOADING_S,
            mgr.device,
            takes_parameters=acts,
            predecessors=mgr.predecessors,
        )


def connect_to_trainers(mgr: GMI_manager) -> TrainerConnection:
    """The connection of this agent."""
    return RemoteConnection(mgr) if proxy_group_name(mgr.gmi.id) in mgr.resources.rendezvous else LocalConnection(mgr)
