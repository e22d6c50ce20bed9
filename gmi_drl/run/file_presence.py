"""Checks that the files of a run keep their names: one that was removed can be written to for hours, unnoticed."""

import os
import time
from pathlib import Path

from gmi_drl.errors import MachineError

CHECK_S = 2.0
"""Least time between two checks."""


def pinned(folder: Path) -> Path:
    """A path to this folder that stays valid while this process lives, also if the folder is renamed or removed."""
    return Path(f"/proc/self/fd/{os.open(folder, os.O_PATH | os.O_DIRECTORY)}")


class Presence:
    """A file or folder that must keep its name. It is kept open, so that no other file gets its inode."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_PATH)
        self._checked_s = time.monotonic()

    def is_there(self) -> bool:
        """Whether the path still is the path of this file."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def check(self) -> None:
        """As `require`, at most once in `CHECK_S`."""
        if time.monotonic() - self._checked_s >= CHECK_S:
            self.require()

    def require(self) -> None:
        """Check now.

        Raises:
            MachineError: if it was removed, moved or replaced.
        """
        self._checked_s = time.monotonic()
        if not self.is_there():
            raise MachineError(f"{self.path} was removed, moved or replaced while the run was writing to it")

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)
