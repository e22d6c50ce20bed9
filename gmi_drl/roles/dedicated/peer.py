"""Another GMI, which is asked and answers, or asks and is answered."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gmi_drl.errors import PeerSilentError

CLOSE = "close"
"""The last thing that is asked for; nobody answers it."""


class Mail(Protocol):
    """What passes trees of tensors between GMIs: `roles.manager.GMI_manager`."""

    def send(self, data: Any, GMI_id: int) -> object:
        """Copy data to another GMI."""

    def recv(self, GMI_id: int) -> Any:
        """Wait for the next message of another GMI. Raises PeerSilentError after `hang_s`."""


class Peer:
    """One other GMI.

    Args:
        mail: Of this GMI.
        gmi_id: Of the other one.
        patience_s: How long its messages are waited for, where that is longer than `hang_s`; see `gmi_drl.waits`.
    """

    def __init__(self, mail: Mail, gmi_id: int, patience_s: float = 0.0) -> None:
        self._mail, self._gmi_id, self._patience_s = mail, gmi_id, patience_s

    def say(self, data: Any) -> None:
        """Send it something."""
        self._mail.send(data, self._gmi_id)

    def hear(self, patience_s: float = 0.0) -> Any:
        """What it says next, in messages of its own devising.

        Raises:
            PeerDiedError: If it has ended.
            PeerSilentError: If it says nothing for `hang_s`, and for the longer one of both patiences.
        """
        began_s = time.monotonic()
        while True:
            try:
                return self._mail.recv(self._gmi_id)
            except PeerSilentError:
                if time.monotonic() - began_s >= max(self._patience_s, patience_s):
                    raise

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
