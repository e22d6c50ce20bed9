"""Sees the ends of clients' processes on this host: a child that such a process has forked keeps a connection open."""

import os
from select import EPOLLIN, epoll

from gmi_drl.replay.server.connection import Connection


class ProcessEnds:
    """Descriptors of processes (`pidfd_open`), in the epoll of a loop.

    Args:
        polling: Of the loop.
    """

    def __init__(self, polling: epoll) -> None:
        self._epoll = polling
        self._connections: dict[int, Connection] = {}
        self._descriptors: dict[Connection, int] = {}

    def watch(self, connection: Connection, pid: int) -> bool:
        """See the end of a process of this host. Returns False if it has ended already."""
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        except OSError:  # too many descriptors, or no such call: the connection's end is seen all the same
            return True
        self._epoll.register(descriptor, EPOLLIN)
        self._connections[descriptor], self._descriptors[connection] = connection, descriptor
        return True

    def ended(self, descriptor: int) -> Connection | None:
        """The client whose process has ended, if this is a descriptor of one."""
        return self._connections.get(descriptor)

    def forget(self, connection: Connection) -> None:
        """A client is closed."""
        descriptor = self._descriptors.pop(connection, None)
        if descriptor is not None:
            del self._connections[descriptor]
            self._epoll.unregister(descriptor)
            os.close(descriptor)
