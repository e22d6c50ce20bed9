"""Where the checkpoints of a run are kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmi_drl.run import checkpoint


class CheckpointStore:
    """The folder `checkpoints` of a run, seen from where the launcher is, or as it sees it.

    Args:
        checkpoints: The folder.
    """

    def __init__(self, checkpoints: Path) -> None:
        self.checkpoints = checkpoints

    def keep(self, file: Path) -> None:
        """Have a file that was written in the run folder there for good, as those that this process sees are.

        Raises:
            GmiError: if it cannot be brought there.
        """

    def require_room(self, iteration: int, more: int) -> None:
        """See `checkpoint.require_room`, for checkpoints like the draft of this iteration."""
        checkpoint.require_room(checkpoint.draft(self.checkpoints, iteration), more)

    def require_own_room(self, need: int) -> None:
        """Check that this host has room for what its GMIs write until it is kept, if that is not where it is kept.

        Raises:
            MachineError: with the numbers.
        """

    def commit(self, iteration: int, facts: Mapping[str, Any], kept: int) -> None:
        """See `checkpoint.commit`."""
        checkpoint.commit(self.checkpoints, iteration, facts, kept)

    def drop_drafts(self) -> None:
        """See `checkpoint.drop_drafts`."""
        checkpoint.drop_drafts(self.checkpoints)
