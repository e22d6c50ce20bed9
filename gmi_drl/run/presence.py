"""Whether what a run writes to still is where it was: files that have lost their names take rows for hours."""

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from gmi_drl.errors import MachineError

LOOK_S = 2.0


def pinned(folder: Path) -> Path:
    """A path that leads to this very folder as long as this process lives, whatever name it has then or loses."""
    return Path(f"/proc/self/fd/{os.open(folder, os.O_PATH | os.O_DIRECTORY)}")


class Presence:
    """A file or folder that must keep its name. It is held open, so that nothing else gets its inode."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_PATH)
        self._looked = time.monotonic()

    def is_there(self) -> bool:
        """Whether the path still leads to it."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def check(self) -> None:
        """As `require`, if the last look is `LOOK_S` ago."""
        if time.monotonic() - self._looked >= LOOK_S:
            self.require()

    def require(self) -> None:
        """Look.

        Raises:
            MachineError: if it was removed, moved or replaced.
        """
        self._looked = time.monotonic()
        if not self.is_there():
            raise MachineError(f"{self.path} was removed, moved or replaced while the run was writing to it")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
