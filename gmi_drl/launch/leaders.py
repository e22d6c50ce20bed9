"""When the GMIs that decide for their groups stop and save: those of several policies do so in the same iterations.

Policies share the rollouts of actors, so none is further ahead of another than the places of channels allow. While one
holds, an iteration beyond that is one that no policy has reached.
"""

import time
from collections.abc import Callable, Sequence

from gmi_drl.roles.launcher.protocol import Hold, Holds, Save, Stop

BEYOND = 2
"""Iterations beyond `max_lag`: one whose batch is taken, and one for a place that was leased again."""


class Leaders:
    """Rank 0 of each group that trains: of several policies each has one, and is at an iteration of its own.

    A run goes on from an iteration that all policies have saved. So they stop in the same one, and save in the same
    ones: those by `checkpoint_every` are, and those by time are decided here. One of them is asked to hold, and all are
    told an iteration that none has reached then. A single policy decides on its own.

    Args:
        ids: Of these GMIs.
        send: Sends one of them a message.
        is_done: Whether one of them has done its last iteration.
        max_lag: Of the channels.
        every_s: Seconds after which a checkpoint is late; None: none is.
    """

    def __init__(
        self,
        ids: Sequence[int],
        send: Callable[[int, Stop | Save | Hold], None],
        is_done: Callable[[int], bool],
        max_lag: int,
        every_s: float | None,
    ) -> None:
        self._ids, self._send, self._is_done, self._every_s = ids, send, is_done, every_s
        self._ahead, self._saved_s = max_lag + BEYOND, time.monotonic()
        self._wanted = list[type[Stop] | type[Save]]()
        self._asked: int | None = None  # to hold

    def stop(self) -> None:
        """Ask all to stop."""
        if len(self._ids) == 1:
            self._send(self._ids[0], Stop())
        else:
            self._want(Stop)

    def look(self) -> None:
        """Ask all policies to save if so much time has passed since then. Ask another if the one that holds is done."""
        is_late = self._every_s is not None and time.monotonic() - self._saved_s >= self._every_s
        if is_late and len(self._ids) > 1:
            self._saved_s = time.monotonic()
            self._want(Save)
        if self._asked is not None and self._is_done(self._asked):
            self._ask()

    def tell(self, holds: Holds) -> None:
        """Tell all what is wanted, the one that holds last: it goes on then."""
        asked, self._asked = self._asked, None
        wanted, self._wanted = self._wanted, []
        assert asked is not None
        for gmi_id in (*(one for one in self._ids if one != asked), asked):
            for kind in wanted:
                self._send(gmi_id, kind(holds.iteration + self._ahead))

    def _want(self, kind: type[Stop] | type[Save]) -> None:
        self._wanted.append(kind)
        if self._asked is None:
            self._ask()

    def _ask(self) -> None:
        self._asked = next((one for one in self._ids if not self._is_done(one)), None)
        if self._asked is not None:
            self._send(self._asked, Hold())
