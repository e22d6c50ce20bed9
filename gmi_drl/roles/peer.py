"""Another GMI, which is asked and answers, or asks and is answered."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gmi_drl.layout.waits import FIRST_HAND

CLOSE = "close"
"""The last thing that is asked for; nobody answers it."""


class Mail(Protocol):
    """What passes trees of tensors between GMIs: `roles.manager.GMI_manager`."""

    hang_s: float

    def send(self, data: Any, GMI_id: int) -> object:
        """Copy data to another GMI."""

    def hear(self, GMI_id: int, patience: float) -> Any:
        """Wait for the next message of another GMI; see `Messages.hear`."""


class Peer:
    """One other GMI.

    Args:
        mail: Of this GMI.
        gmi_id: Of the other one.
        patience: How many times `hang_s` its messages are waited for; see `gmi_drl.layout.waits`.
    """

    def __init__(self, mail: Mail, gmi_id: int, patience: float = FIRST_HAND) -> None:
        self._mail, self._gmi_id, self._patience = mail, gmi_id, patience

    def say(self, data: Any) -> None:
        """Send it something."""
        self._mail.send(data, self._gmi_id)

    def hear(self, least_s: float = 0.0) -> Any:
        """Wait for what it says next.

        Args:
            least_s: Wait for so many seconds, if that is longer.

        Raises:
            PeerDiedError: If it has ended.
            PeerSilentError: If neither it nor anybody that it waits for says anything in that time.
        """
        return self._mail.hear(self._gmi_id, max(self._patience, least_s / self._mail.hang_s))

    def ask(self, deed: str, data: Any = None) -> Any:
        """Have it do something, and wait for what it answers."""
        self.say((deed, data))
        return self.hear()

    def serve(self, deeds: Mapping[str, Callable[[Any], Any]]) -> None:
        """Do what it asks for, by name, and answer, until it closes."""
        while True:
            deed, data = self.hear()
            if deed == CLOSE:
                return
            self.say(deeds[deed](data))
