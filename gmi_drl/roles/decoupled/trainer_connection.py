"""How an agent gets to the trainers of its pool: by the memory of their host, or by its stand-in there."""

from typing import Protocol

from gmi_drl.comm.channels import AgentEnd, ChannelSizes, join_as_agent
from gmi_drl.comm.channels.proxy_rendezvous import AGENT, PROXY, proxy_group_name, proxy_membership
from gmi_drl.comm.channels.remote_agent import RemoteAgentEnd
from gmi_drl.comm.channels.remote_protocol import FORWARD, RECIPIENT
from gmi_drl.comm.channels.remote_sender import RemoteSender
from gmi_drl.comm.links.handshake import RankAddresses, connect_ranks
from gmi_drl.layout.pools import pool_of
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.peer import Peer


class TrainerConnection(Protocol):
    """Of one agent."""

    def tell(self, text: str) -> None:
        """Tell all trainers of the pool something."""

    def open(self, sizes: ChannelSizes) -> AgentEnd:
        """The agent's end of the channels, when the first trainer has made room: worlds of others may load for long."""


class LocalConnection:
    """By the memory of a host.

    Args:
        mgr: Of the agent.
    """

    def __init__(self, mgr: GMI_manager) -> None:
        self._mgr, self._trainers = mgr, pool_of(mgr.layout, mgr.gmi.id).trainers

    def tell(self, text: str) -> None:
        """See `TrainerConnection`."""
        for trainer in self._trainers:
            Peer(self._mgr, trainer).send(text)

    def open(self, sizes: ChannelSizes) -> AgentEnd:
        """See `TrainerConnection`. The first trainer says that there is room; a successor knows."""
        mgr = self._mgr
        if not mgr.predecessors:
            Peer(mgr, self._trainers[0]).receive(LOADING_S)
        return join_as_agent(
            *mgr.channel_memory, mgr.gmi.id, sizes, mgr.hang_s, mgr.device, mgr.predecessors, mgr.waits
        )


class RemoteConnection:
    """By a stand-in, which is met at once: nobody knows yet how long the worlds will load.

    Args:
        mgr: Of the agent.

    Raises:
        PeerDiedError: If the stand-in has ended.
        PeerSilentError: If it does not come within `hang_s`.
    """

    def __init__(self, mgr: GMI_manager) -> None:
        pool = pool_of(mgr.layout, mgr.gmi.id)
        self._mgr, self._trainers = mgr, pool.trainers
        rendezvous = mgr.resources.rendezvous[proxy_group_name(mgr.gmi.id)]
        assert rendezvous.addresses is not None and rendezvous.listener is not None
        member = proxy_membership(mgr.gmi.id, AGENT, pool.node, mgr.hang_s)
        connection = connect_ranks(member, RankAddresses.from_descriptor(rendezvous.addresses), rendezvous.listener)[
            PROXY
        ]
        self._sender = RemoteSender(connection, member.name(PROXY), member.name(AGENT))

    def tell(self, text: str) -> None:
        """See `TrainerConnection`."""
        for trainer in self._trainers:
            self._sender.send(FORWARD, RECIPIENT.pack(trainer) + text.encode())

    def open(self, sizes: ChannelSizes) -> RemoteAgentEnd:
        """See `TrainerConnection`. The stand-in says that there is room."""
        mgr = self._mgr
        return RemoteAgentEnd(self._sender, sizes, mgr.hang_s, mgr.waits.behind, LOADING_S, mgr.device)


def connect_to_trainers(mgr: GMI_manager) -> TrainerConnection:
    """The one that an agent has."""
    return RemoteConnection(mgr) if proxy_group_name(mgr.gmi.id) in mgr.resources.rendezvous else LocalConnection(mgr)
