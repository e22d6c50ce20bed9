"""The connections of actors on other hosts to their policy worker: at the start, later, and again after a loss."""

import os
import sys
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from select import EPOLLIN, epoll

from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.links.handshake import PeerListener
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import GmiError, PeerSilentError
from gmi_drl.roles.launcher.connection import LauncherConnection
from gmi_drl.roles.launcher.protocol import Lost

_NAP_S = 0.5
_LOOK_S = 1.0


class LateClients:
    """See `comm.streams.far_clients.ClientChanges`. A thread accepts each actor as often as it connects.

    Args:
        listeners: Of each actor, by its id.
        launcher: Tells which actors are lost. Nothing else of it matters to a policy worker.
    """

    def __init__(self, listeners: Mapping[int, PeerListener], launcher: LauncherConnection) -> None:
        self._listeners, self._launcher = listeners, launcher
        self._came = SimpleQueue[tuple[int, FramedConnection]]()
        self._changes = dict[int, FramedConnection | None]()  # that nobody has taken yet
        self._expected = Counter[int]()  # the least number of predecessors of an actor that is not out of date
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll, self._stop = epoll(), os.eventfd(0, os.EFD_CLOEXEC)
        for descriptor in (self._eventfd, launcher.fileno()):
            self._poll.register(descriptor, EPOLLIN)
        self._accepting = threading.Thread(target=self._accept, name="accepts actors", daemon=True)
        self._accepting.start()

    def await_all(self, clients: Collection[int], own: int, hang_s: float) -> dict[int, FramedConnection | None]:
        """Wait until actors that must be there have connected, `hang_s` at most for all of them together.

        Args:
            clients: Their ids.
            own: The id of the policy worker, for the error.
            hang_s: Seconds in which this process runs.

        Raises:
            PeerSilentError: With all that have not connected.
        """
        waiting = WaitClock()
        while missing := [f"GMI {client}" for client in clients if client not in self._changes]:
            with suppress(Empty):
                self._connected(*self._came.get(timeout=_NAP_S))
            if waiting.look() > hang_s:
                have, logs = ("has", "its log") if len(missing) == 1 else ("have", "their logs")
                text = f"{', '.join(missing)} {have} not connected for {hang_s:g} s (hang_s) while GMI {own} waited"
                raise PeerSilentError(f"{text}: see {logs}, or raise hang_s")
        return {client: self._changes.pop(client) for client in clients}

    def fileno(self) -> int:
        """See `ClientChanges`."""
        return self._poll.fileno()

    def take(self) -> dict[int, FramedConnection | None]:
        """See `ClientChanges`. A loss is of one process: a later one stays, in whatever order they come."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._eventfd)
        with suppress(Empty):
            while True:
                self._connected(*self._came.get_nowait())
        for message in self._launcher.messages():
            if isinstance(message, Lost) and message.predecessors >= self._expected[message.gmi]:
                self._set(message.gmi, None)
                self._expected[message.gmi] = message.predecessors + 1
        changes, self._changes = self._changes, {}
        return changes

    def close(self) -> None:
        """Accept nobody any more."""
        os.eventfd_write(self._stop, 1)
        self._accepting.join()
        while not self._came.empty():
            self._connected(*self._came.get())
        for connection in filter(None, self._changes.values()):
            connection.close()
        for listener in self._listeners.values():
            listener.close()
        self._poll.close()
        for descriptor in (self._eventfd, self._stop):
            os.close(descriptor)

    def _connected(self, client: int, connection: FramedConnection) -> None:
        """Note that an actor has connected, unless its process was lost or succeeded meanwhile."""
        if connection.predecessors < self._expected[client]:
            connection.close()
        else:
            self._set(client, connection)
            self._expected[client] = connection.predecessors

    def _set(self, client: int, connection: FramedConnection | None) -> None:
        """Note the newest of an actor. A connection before it that nobody has taken is closed."""
        if (before := self._changes.get(client)) is not None:
            before.close()
        self._changes[client] = connection

    def _accept(self) -> None:
        with closing(epoll()) as accepting:
            for descriptor in (self._stop, *[listener.fileno() for listener in self._listeners.values()]):
                accepting.register(descriptor, EPOLLIN)
            try:
                while self._stop not in [descriptor for descriptor, _ in accepting.poll(_LOOK_S)]:
                    for client, listener in self._listeners.items():  # also those that nobody comes to: see `accept`
                        for connection in listener.accept():
                            self._came.put((client, connection))
                            os.eventfd_write(self._eventfd, 1)
            except GmiError as error:  # too few descriptors, for all of them
                print(f"no further actors are accepted: {error}", file=sys.stderr, flush=True)
