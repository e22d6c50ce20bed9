"""Another GMI, which is asked and answers, or asks and is answered."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gmi_drl.errors import PeerSilentError
from gmi_drl.layout import Layout

CLOSE = "close"
"""The last thing that is asked for; nobody answers it."""

LOADING_S = 1200.0
"""How long a simulator may load and compile before it is there."""


@dataclass(frozen=True)
class Turns:
    """How many times `hang_s` GMIs that have one role wait: who may itself wait for others is waited for longer.

    An agent waits once for its simulators, trainers for each other longer than for their agents (`Layout.patience`). So
    of all who wait for a GMI that hangs the first to give up is one that waits for it, and not for somebody between.

    Attributes:
        agent: A trainer for the rollout of its agent.
        trainer: An agent for its trainer, which may wait for others.
        idle_agent: A simulator for its agent, which may wait for its trainer.
    """

    agent: int
    trainer: int
    idle_agent: int


def turns_of(layout: Layout) -> Turns:
    """Those in a layout."""
    group = layout.patience
    return Turns(group - 1, group + 1, group + 2)


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
        patience_s: How much longer than `hang_s` its messages are waited for, where it may itself wait for others: who
            is nearest to a GMI that hangs tells of it first, and names it.
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
            PeerSilentError: If it says nothing for `hang_s`, and the longer of both patiences is over.
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
