"""The folder in which an import writes, beside its place, until it is complete."""

import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from gmi_drl.errors import InUseError, MachineError, UsageError


class Draft:
    """A folder `.NAME.draft` beside the folder `into`, where it is put when it is complete. One process has it.

    Args:
        into: Must not be there.

    Attributes:
        path: Of the draft, empty.
        begins_anew: Whether an earlier import into the same folder was killed; what it had written is gone.

    Raises:
        UsageError: if `into` is there.
        InUseError: if another process imports into it.
        MachineError: if the draft cannot be made.
    """

    def __init__(self, into: Path) -> None:
        if not into.name:
            raise UsageError(f"{into} is there already: name a folder in it")
        self.into, self.path = into, into.with_name(f".{into.name}.draft")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._descriptor)
                raise InUseError(f"another process imports into {into}: wait for it, or take another folder") from None
            if into.exists():
                self._leave()
                raise UsageError(f"{into} is there already: remove it, or import into another folder")
            left = list(self.path.iterdir())
            self.begins_anew = bool(left)
            for file in left:
                file.unlink()
        except OSError as error:
            raise MachineError(f"{self.path}: cannot be made: {error.strerror}") from None

    def complete(self) -> None:
        """Put the folder in its place. Its files are on the disk."""
        self.path.rename(self.into)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._leave()

    def _leave(self) -> None:
        """Remove what is not complete, and let others import."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._descriptor)
