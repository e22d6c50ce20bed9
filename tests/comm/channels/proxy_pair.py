"""Agents that share no memory with their trainers, for tests of the channels."""

import secrets
import threading
from contextlib import closing, suppress

from gmi_drl.comm.channels.proxy import AgentProxy
from gmi_drl.comm.channels.proxy_host import ProxyHost
from gmi_drl.comm.channels.remote_agent import RemoteAgentEnd
from gmi_drl.comm.channels.remote_protocol import TAKES_PARAMETERS
from gmi_drl.comm.channels.remote_sender import RemoteSender
from gmi_drl.comm.host_links import AGENT, MESSAGE_BYTES, PROXY, proxy_membership
from gmi_drl.comm.links.handshake import RankAddresses, connect_ranks, listen
from gmi_drl.comm.messages.messages import Messages
from gmi_drl.errors import GmiError
from gmi_drl.layout.waits import waits_by_channels
from tests.comm.ranks import FORK

MEET_S = 60.0


def opening(sizes):
    """What an agent that acts sends first."""
    return TAKES_PARAMETERS.pack(True) + sizes.text.encode()


class ProxyPair:
    """Both ends of the connection of a remote agent and its proxy, in this process or in children of it."""

    def __init__(self, gmi, predecessors=0):
        self.gmi, self.predecessors = gmi, predecessors
        self.has_met = FORK.Event()
        self.listeners = [listen(), listen()]
        self.addresses = RankAddresses(tuple(one.getsockname() for one in self.listeners), secrets.token_hex(16))

    def _connection(self, rank):
        listener = self.listeners[rank].fileno()
        (connection,) = connect_ranks(self.member(rank), self.addresses, listener, MESSAGE_BYTES).values()
        if rank == AGENT:
            self.has_met.set()
        return connection

    def member(self, rank):
        return proxy_membership(self.gmi, rank, "home", MEET_S, self.predecessors if rank == AGENT else 0)

    def serve(self, memory, mailboxes, hang_s, tell=None, host=None):
        """Run the proxy until the agent has ended, or a trainer is lost."""
        with suppress(GmiError), closing(self.made_proxy(memory, mailboxes, hang_s, tell, host)) as proxy:
            proxy.serve()

    def made_proxy(self, memory, mailboxes, hang_s, tell=None, host=None):
        if not self.predecessors:
            messages = Messages(mailboxes, self.gmi, hang_s)  # trainers can see its end from now on, also before it met
            tell = tell or messages.send
        host = host or ProxyHost(memory, mailboxes, hang_s)
        return AgentProxy(self._connection(PROXY), host, self.gmi, tell)

    def sender(self):
        member = self.member(AGENT)
        return RemoteSender(self._connection(AGENT), member.name(PROXY), member.name(AGENT))

    def agent_end(self, sizes, hang_s, **more):
        """The agent's end, once its proxy has seen the channels' memory."""
        patience = waits_by_channels(len(sizes.trainers)).behind
        return RemoteAgentEnd(self.sender(), sizes, hang_s, patience, hang_s, predecessors=self.predecessors, **more)

    def serving(self, memory, mailboxes, hang_s, tell=None, host=None):
        """A thread of this process that runs the proxy; those that share a host are of one process."""
        thread = threading.Thread(target=self.serve, args=(memory, mailboxes, hang_s, tell, host), daemon=True)
        thread.start()
        return thread

    def close(self, but=None):
        for rank, listener in enumerate(self.listeners):
            if rank != but:
                listener.close()
