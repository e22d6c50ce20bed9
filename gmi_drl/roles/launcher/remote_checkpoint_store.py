"""The checkpoint store of a run whose folder is on another host."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmi_drl.roles.launcher.connection import LauncherConnection
from gmi_drl.roles.launcher.protocol import StoreCommand, Stored, StoreFile
from gmi_drl.run.checkpoint import require_free
from gmi_drl.run.checkpoint_store import CheckpointStore

STORE_S = 600.0
"""Deadline of the launcher for one file: those of other GMIs of this host may come before it."""


class RemoteCheckpointStore(CheckpointStore):
    """A `CheckpointStore` whose files are copied to the launcher, which commits checkpoints there.

    Args:
        checkpoints: A folder of this host, for files to be copied.
        launcher: The connection to it.
    """

    def __init__(self, checkpoints: Path, launcher: LauncherConnection) -> None:
        super().__init__(checkpoints)
        self._launcher = launcher

    def keep(self, file: Path) -> None:
        """See `CheckpointStore`."""
        self._launcher.deliver(StoreFile(str(file.resolve())))
        self._await_stored(f"stored {file.name}")

    def require_room(self, iteration: int, most: int, growth: int = 0) -> None:
        """See `CheckpointStore`."""
        self._command("require_room", iteration=iteration, most=most, growth=growth)

    def require_own_room(self, need: int) -> None:
        """See `CheckpointStore`: parts are on this host until they have been copied."""
        require_free(self.checkpoints, need, "the parts of a checkpoint that its GMIs write there need")

    def commit(self, iteration: int, facts: Mapping[str, Any], kept: int) -> None:
        """See `CheckpointStore`."""
        self._command("commit", iteration=iteration, facts=dict(facts), kept=kept)

    def drop_drafts(self) -> None:
        """See `CheckpointStore`. On this host there is an empty folder at most, since files are moved away."""
        self._command("drop_drafts")

    def _command(self, do: str, **given: Any) -> None:
        self._launcher.deliver(StoreCommand(do, given))
        self._await_stored(f"done {do}")

    def _await_stored(self, action: str) -> None:
        self._launcher.await_message(Stored(), STORE_S, f"the launcher has not {action} within {STORE_S:.0f} s")
