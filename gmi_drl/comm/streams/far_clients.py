"""The clients of a server that are on other hosts."""

import sys
from collections.abc import Mapping
from select import EPOLLIN, EPOLLOUT, epoll
from typing import Protocol

from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.streams.slot_link import READY, SlotLink
from gmi_drl.comm.streams.slots import ANSWERED, HAS_LEFT, LINE_WORDS, SLOT_WORDS, StreamMemory
from gmi_drl.errors import GmiError


class ClientChanges(Protocol):
    """Tells which clients on other hosts have come late, or again, and which are lost with their host."""

    def fileno(self) -> int:
        """A descriptor that is readable when `take` has something to tell."""

    def take(self) -> Mapping[int, FramedConnection | None]:
        """What is new: the connection of each client that has come, None of one that is lost, also before it came."""

    def close(self) -> None:
        """Tell nothing any more."""


class FarClients:
    """Writes what they post into their slots, and sends them what the server writes there. The server's thread uses it.

    Args:
        connections: By the client's id, None of one that comes later, or again to a successor of the server; this
            object owns them from now on.
        memory: Of the stream.
        notifier: Of the server. It wakes when something arrives, and is told who has ended.
        changes: Of clients that come later, are lost, or come again, owned as well; None: there are none.

    Attributes:
        absent: The clients that have not come yet. Those that had left a predecessor of the server are not among them.
        changed: How often one has come, or was lost.
        refused: Why the connection of a client was closed, by its id: what it has sent was wrong, or it has asked for a
            version of the policy that nobody has published.
    """

    def __init__(
        self,
        connections: Mapping[int, FramedConnection | None],
        memory: StreamMemory,
        notifier: Notifier,
        changes: ClientChanges | None = None,
    ) -> None:
        self._memory, self._notifier, self._changes = memory, notifier, changes
        self._ids, self._links = frozenset(connections), dict[int, SlotLink]()
        self._clients = dict[int, int]()  # by descriptor
        self._poll, self._sending = epoll(), set[int]()
        self.refused, self.changed = dict[int, str](), 0
        self.absent = {one for one, link in connections.items() if link is None and not self._has_left(one)}
        notifier.watch_descriptor(self._poll.fileno())
        if changes is not None:
            self._poll.register(changes.fileno(), EPOLLIN)
        for client, connection in connections.items():
            if connection is not None:
                self._add(client, connection)
                continue
            notifier.watch_elsewhere(client)
            if client in self.absent:
                self._clear(client)

    def __contains__(self, client: int) -> bool:
        """Whether a client is on another host."""
        return client in self._ids

    def send(self, client: int) -> None:
        """Send a client what was written into its slots, as far as its connection takes it."""
        link = self._links.get(client)
        if link is not None and link.connection.is_open:
            link.send()
            self._watch(link.connection)

    def receive(self) -> None:
        """Write what has arrived into slots, send what was left, and note who has come and whose connection has ended.

        A client that has sent something else counts as ended: its connection is closed, and the others are served.
        """
        for descriptor, _ in self._poll.poll(0):
            if self._changes is not None and descriptor == self._changes.fileno():
                self._take_changes(self._changes)
                continue
            if descriptor not in self._clients:  # of one that was lost just now
                continue
            link = self._links[self._clients[descriptor]]
            link.connection.flush()
            try:
                link.receive()
            except GmiError as error:
                self.refuse(self._clients[descriptor], str(error))
                continue
            if link.connection.is_open:
                self._watch(link.connection)
            else:
                self._end(self._clients[descriptor])

    def refuse(self, client: int, error: str) -> None:
        """Close the connection of a client, and say why: this process goes on, so that nobody else does."""
        self.refused[client] = error
        print(f"{error}: its connection was closed, other actors are served", file=sys.stderr, flush=True)
        self._end(client)

    def close(self) -> None:
        """Close the connections, and accept no more."""
        self._notifier.unwatch_descriptor(self._poll.fileno())
        self._poll.close()
        if self._changes is not None:
            self._changes.close()
        for link in self._links.values():
            link.connection.close()

    def _add(self, client: int, connection: FramedConnection) -> None:
        """Take a client's connection. It sends again what is open, if it had one before."""
        self.changed += 1
        slots = self._clear(client)
        self._notifier.watch_elsewhere(client)
        self.refused.pop(client, None)
        self._links[client] = SlotLink(connection, self._memory, slots, client, is_client=False)
        self._clients[connection.fileno()] = client
        self._poll.register(connection.fileno(), EPOLLIN)
        connection.send_frame(READY, self._memory.sizes.text.encode())
        self._watch(connection)

    def _clear(self, client: int) -> range:
        """Make the slots of a client as new: what came by another connection is answered. Returns which they are."""
        slots = self._memory.sizes.slots_of(client)
        self._memory.table[slots.start : slots.stop, :LINE_WORDS] = 0
        self._memory.table[slots.start : slots.stop, ANSWERED] = 0
        return slots

    def _has_left(self, client: int) -> bool:
        return bool(self._memory.words[self._memory.sizes.slots_of(client)[0] * SLOT_WORDS + HAS_LEFT])

    def _take_changes(self, changes: ClientChanges) -> None:
        for client, connection in changes.take().items():
            self.absent.discard(client)
            if client in self._links:
                self._end(client)
            if connection is not None:
                self._add(client, connection)
            elif client not in self._links:
                self.changed += 1
                self._notifier.set_ended(client)

    def _end(self, client: int) -> None:
        """Close the connection of a client, unless that is done. One that had not left before has ended."""
        descriptor = self._links[client].connection.fileno()
        if self._clients.pop(descriptor, None) is None:
            return
        self.changed += 1
        self._poll.unregister(descriptor)
        self._sending.discard(descriptor)  # another connection may get the same one
        self._links[client].connection.close()
        if not self._has_left(client):
            self._notifier.set_ended(client)

    def _watch(self, connection: FramedConnection) -> None:
        """Also wake up when a connection takes more, while something is left to be sent."""
        if connection.is_sending != (connection.fileno() in self._sending):
            self._sending ^= {connection.fileno()}
            self._poll.modify(connection.fileno(), EPOLLIN | EPOLLOUT * connection.is_sending)
