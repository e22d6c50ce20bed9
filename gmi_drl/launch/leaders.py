"""When the GMIs that decide for their groups stop and save: those of several policies do so in the same iterations."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gmi_drl.roles.launcher.protocol import Save, Stop

AHEAD = 2
"""Iterations from the newest that is reported to the one in which all policies stop or save: the next may be ending."""


class Leaders:
    """Rank 0 of each group that trains: of several policies each has one, and is at an iteration of its own.

    A run goes on from an iteration that all policies have saved. So they stop in the same one, and save in the same
    ones: those by `checkpoint_every` are, and those by time are decided here. A single policy decides on its own.

    Args:
        ids: Of these GMIs.
        send: Sends one of them a message.
        begun: The iteration that the run goes on from; 0 at first.
        every_s: Seconds after which a checkpoint is late; None: none is.
    """

    def __init__(
        self, ids: Sequence[int], send: Callable[[int, Stop | Save], None], begun: int, every_s: float | None
    ) -> None:
        self._ids, self._send, self._newest, self._every_s = ids, send, begun, every_s
        self._saved_s = time.monotonic()

    def note(self, row: Mapping[str, Any]) -> None:
        """Note an iteration that is done, by the row of one of the GMIs of a group."""
        self._newest = max(self._newest, row["iteration"])

    def stop(self) -> None:
        """Ask all to stop."""
        self._tell(Stop(self._newest + AHEAD if len(self._ids) > 1 else 0))

    def save_if_late(self) -> None:
        """Ask all policies to save if so much time has passed since this was asked before."""
        is_late = self._every_s is not None and time.monotonic() - self._saved_s >= self._every_s
        if is_late and len(self._ids) > 1:
            self._saved_s = time.monotonic()
            self._tell(Save(self._newest + AHEAD))

    def _tell(self, word: Stop | Save) -> None:
        for gmi_id in self._ids:
            self._send(gmi_id, word)
