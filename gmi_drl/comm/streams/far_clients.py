"""The clients of a server that are on other hosts."""

from collections.abc import Mapping
from select import EPOLLIN, EPOLLOUT, epoll

from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.streams.slot_link import READY, SlotLink
from gmi_drl.comm.streams.slots import HAS_LEFT, SLOT_WORDS, StreamMemory


class FarClients:
    """Writes what they post into their slots, and sends them what the server writes there. The server's thread uses it.

    Args:
        connections: By the client's id; this object owns them from now on.
        memory: Of the stream.
        notifier: Of the server. It wakes when something arrives, and is told who has ended.
    """

    def __init__(self, connections: Mapping[int, FramedConnection], memory: StreamMemory, notifier: Notifier) -> None:
        self._memory, self._notifier = memory, notifier
        self._links = {
            client: SlotLink(connection, memory, memory.sizes.slots_of(client), client, is_client=False)
            for client, connection in connections.items()
        }
        self._clients = {link.connection.fileno(): client for client, link in self._links.items()}
        self._poll, self._sending = epoll(), set[int]()
        notifier.watch_descriptor(self._poll.fileno())
        for client, link in self._links.items():
            notifier.watch_elsewhere(client)
            self._poll.register(link.connection.fileno(), EPOLLIN)
            link.connection.send_frame(READY, memory.sizes.text.encode())

    def __contains__(self, client: int) -> bool:
        """Whether a client is on another host."""
        return client in self._links

    def send(self, client: int) -> None:
        """Send a client what was written into its slots, as far as its connection takes it."""
        link = self._links[client]
        if link.connection.is_open:
            link.send()
            self._watch(link.connection)

    def receive(self) -> None:
        """Write what has arrived into slots, send what was left, and note whose connections have ended."""
        for descriptor, _ in self._poll.poll(0):
            client = self._clients[descriptor]
            link = self._links[client]
            link.connection.flush()
            link.receive()
            if link.connection.is_open:
                self._watch(link.connection)
                continue
            self._poll.unregister(descriptor)
            first = self._memory.sizes.slots_of(client)[0]
            if not self._memory.words[first * SLOT_WORDS + HAS_LEFT]:
                self._notifier.set_ended(client)

    def close(self) -> None:
        """Close the connections."""
        self._notifier.unwatch_descriptor(self._poll.fileno())
        self._poll.close()
        for link in self._links.values():
            link.connection.close()

    def _watch(self, connection: FramedConnection) -> None:
        """Also wake up when a connection takes more, while something is left to be sent."""
        if connection.is_sending != (connection.fileno() in self._sending):
            self._sending ^= {connection.fileno()}
            self._poll.modify(connection.fileno(), EPOLLIN | EPOLLOUT * connection.is_sending)
