"""The checkpoint store: what GMIs call to store the files of a run where the launcher sees them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmi_drl.run import checkpoint


class CheckpointStore:
    """Stores checkpoints in the folder of a run that launcher and GMIs see.

    Args:
        checkpoints: The folder `checkpoints` of the run.
    """

    def __init__(self, checkpoints: Path) -> None:
        self.checkpoints = checkpoints

    def keep(self, file: Path) -> None:
        """Store a file of this host's run folder in the launcher's. Here they are the same folder.

        Raises:
            GmiError: if it cannot be copied.
        """

    def require_room(self, iteration: int, most: int, growth: int = 0) -> None:
        """See `checkpoint.require_room`, for checkpoints like the draft of this iteration."""
        checkpoint.require_room(checkpoint.draft(self.checkpoints, iteration), most, growth)

    def require_own_room(self, need: int) -> None:
        """Check that this host has room for `need` bytes of files that are to be copied. Here none are.

        Raises:
            MachineError: with the numbers.
        """

    def commit(self, iteration: int, facts: Mapping[str, Any], kept: int) -> None:
        """See `checkpoint.commit`."""
        checkpoint.commit(self.checkpoints, iteration, facts, kept)

    def drop_drafts(self) -> None:
        """See `checkpoint.drop_drafts`."""
        checkpoint.drop_drafts(self.checkpoints)
