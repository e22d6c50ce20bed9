"""Where a server writes its checkpoints, and which one it begins with."""

import tempfile
from pathlib import Path

from gmi_drl.replay.server.checkpoints import shards_in


class DefaultCheckpointer:
    """Checkpoints in a folder, each in one of its own, the newest two.

    Args:
        path: The folder.
        group: Of permissions; only the empty one, which changes none.
        fallback_checkpoint_path: A checkpoint to begin with if the folder has none.

    Raises:
        ValueError: if a group is given.
    """

    def __init__(self, path: str, group: str = "", fallback_checkpoint_path: str | None = None) -> None:
        if group:
            raise ValueError(f"group {group!r}: folders of checkpoints have the group of their parent (set it there)")
        self.path, self.group, self.fallback_checkpoint_path = str(path), group, fallback_checkpoint_path

    @property
    def newest(self) -> Path | None:
        """The checkpoint to begin with; None if there is none."""
        found = sorted(path for path in Path(self.path).glob("[0-9]*") if shards_in(path))
        if found:
            return found[-1]
        return None if self.fallback_checkpoint_path is None else Path(self.fallback_checkpoint_path)


class TempDirCheckpointer(DefaultCheckpointer):
    """Checkpoints in a new folder for temporary files."""

    def __init__(self) -> None:
        super().__init__(tempfile.mkdtemp(prefix="gmi-drl-replay-"))


CheckpointerBase = DefaultCheckpointer


def default_checkpointer(group: str | None = None) -> CheckpointerBase:
    """What servers have that were given none.

    Args:
        group: Has no effect, as in dm-reverb.
    """
    return TempDirCheckpointer()
