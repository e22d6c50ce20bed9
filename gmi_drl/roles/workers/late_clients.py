"""The actors of a policy worker that come to a run later, and those that are lost (`streams.fewest_actors`)."""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from select import EPOLLIN, epoll

from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.roles.launcher.connection import LauncherConnection
from gmi_drl.roles.launcher.protocol import Lost


class LateClients:
    """See `comm.streams.far_clients.ClientChanges`. A thread for each actor waits until that connects.

    Args:
        accepts: Waits for the connection of an actor, by its id.
        launcher: Tells which actors are lost. Nothing else of it matters to a policy worker.
    """

    def __init__(self, accepts: Mapping[int, Callable[[], FramedConnection]], launcher: LauncherConnection) -> None:
        self._launcher, self._came = launcher, SimpleQueue[tuple[int, FramedConnection]]()
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = epoll()
        for descriptor in (self._eventfd, launcher.fileno()):
            self._poll.register(descriptor, EPOLLIN)
        for client, accept in accepts.items():
            threading.Thread(target=self._accept, args=(client, accept), name=f"GMI {client}", daemon=True).start()

    def fileno(self) -> int:
        """See `ClientChanges`."""
        return self._poll.fileno()

    def take(self) -> dict[int, FramedConnection | None]:
        """See `ClientChanges`."""
        changes: dict[int, FramedConnection | None] = {}
        with suppress(BlockingIOError):
            os.eventfd_read(self._eventfd)
        with suppress(Empty):
            while True:
                client, connection = self._came.get_nowait()
                changes[client] = connection
        for message in self._launcher.messages():
            if isinstance(message, Lost):
                changes |= dict.fromkeys(message.gmis)
        return changes

    def _accept(self, client: int, accept: Callable[[], FramedConnection]) -> None:
        self._came.put((client, accept()))
        os.eventfd_write(self._eventfd, 1)
