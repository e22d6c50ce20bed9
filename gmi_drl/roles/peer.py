"""Requests to another GMI and its answers, or its requests and our answers."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gmi_drl.layout.waits import FIRST_HAND

CLOSE = "close"
"""The last request to a GMI that serves; it is not answered."""


class Mail(Protocol):
    """Passes trees of tensors between GMIs: `roles.manager.GMI_manager`."""

    hang_s: float

    def send(self, data: Any, GMI_id: int) -> object:
        """Copy data to another GMI."""

    def recv_while_active(self, GMI_id: int, patience: float) -> Any:
        """Wait for the next message of another GMI; see `Messages.recv_while_active`."""


class Peer:
    """One other GMI.

    Args:
        mail: Of this GMI.
        gmi_id: Of the other one.
        patience: How many times `hang_s` to wait for a message; see `gmi_drl.layout.waits`.
    """

    def __init__(self, mail: Mail, gmi_id: int, patience: float = FIRST_HAND) -> None:
        self._mailbox, self._gmi_id, self._patience = mail, gmi_id, patience

    def send(self, data: Any) -> None:
        """Send a message, without waiting."""
        self._mailbox.send(data, self._gmi_id)

    def receive(self, least_s: float = 0.0) -> Any:
        """Wait for its next message.

        Args:
            least_s: Wait at least this long, in seconds.

        Raises:
            PeerDiedError: If it has ended.
            PeerSilentError: If in that time no message comes from it, or from a GMI that it waits for.
        """
        return self._mailbox.recv_while_active(self._gmi_id, max(self._patience, least_s / self._mailbox.hang_s))

    def request(self, action: str, data: Any = None) -> Any:
        """Send a request, and wait for the answer."""
        self.send((action, data))
        return self.receive()

    def serve(self, actions: Mapping[str, Callable[[Any], Any]]) -> None:
        """Answer its requests, by the names of their actions, until it sends `CLOSE`."""
        while True:
            action, data = self.receive()
            if action == CLOSE:
                return
            self.send(actions[action](data))
