"""The home of a run on another host, whose files this one does not see."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmi_drl.roles.launcher.connection import LauncherConnection
from gmi_drl.roles.launcher.protocol import AtHome, Keep, Kept
from gmi_drl.run.checkpoint import require_free
from gmi_drl.run.checkpoint_store import CheckpointStore

KEEP_S = 600.0
"""Until the launcher must have got a file, whatever comes from other GMIs of this host before."""


class RemoteCheckpointStore(CheckpointStore):
    """See `CheckpointStore`. What is kept is carried to the launcher, which concludes checkpoints there.

    Args:
        checkpoints: A folder of this host, for what is to be carried.
        line: To the launcher.
    """

    def __init__(self, checkpoints: Path, line: LauncherConnection) -> None:
        super().__init__(checkpoints)
        self._line = line

    def keep(self, file: Path) -> None:
        """See `CheckpointStore`."""
        within = file.resolve().relative_to(self.checkpoints.resolve().parent)
        self._line.deliver(Keep(str(within)))
        self._await_kept(f"kept {within}")

    def require_room(self, iteration: int, more: int) -> None:
        """See `CheckpointStore`."""
        self._at_home("require_room", iteration=iteration, more=more)

    def require_own_room(self, need: int) -> None:
        """See `CheckpointStore`: until they have been carried the parts lie here."""
        require_free(self.checkpoints, need, "the parts of a checkpoint that its GMIs write there need")

    def commit(self, iteration: int, facts: Mapping[str, Any], kept: int) -> None:
        """See `CheckpointStore`."""
        self._at_home("commit", iteration=iteration, facts=dict(facts), kept=kept)

    def drop_drafts(self) -> None:
        """See `CheckpointStore`. On this host what was carried has left an empty folder, at most."""
        self._at_home("drop_drafts")

    def _at_home(self, do: str, **given: Any) -> None:
        self._line.deliver(AtHome(do, given))
        self._await_kept(f"done {do}")

    def _await_kept(self, what: str) -> None:
        self._line.await_word(Kept(), KEEP_S, f"the launcher has not {what} within {KEEP_S:.0f} s")
