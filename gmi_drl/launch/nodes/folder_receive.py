"""The launcher's end of the mirrors of its run folder: takes what they carry, and concludes checkpoints for them."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gmi_drl.errors import GmiError, MachineError
from gmi_drl.launch.nodes.folder_upload import chunks
from gmi_drl.run.checkpoint import list_checkpoints
from gmi_drl.run.checkpoint_store import CheckpointStore
from gmi_drl.run.folder import RunFolder


class FolderReceiver:
    """Writes into a run folder what GMIs of other hosts have for it.

    Args:
        folder: The run folder.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        home = CheckpointStore(folder.checkpoints)
        self._does: Mapping[str, Callable[..., None]] = {
            "require_room": home.require_room,
            "commit": home.commit,
            "drop_drafts": home.drop_drafts,
        }

    def files(self) -> Iterator[Path]:
        """What a mirror needs at first, within the run folder: the setup, and the newest checkpoint."""
        for file in (self._folder.layout_file, self._folder.config_file, *self._newest()):
            yield file.relative_to(self._folder.path)

    def size(self) -> int:
        """Bytes of the newest checkpoint; the setup, which may not be written yet, is small."""
        return sum(file.stat().st_size for file in self._newest())

    def take(self, file: str, offset: int, data: bytes, *, is_last: bool) -> None:
        """Add a piece to a file, which gets its name with the last one.

        Raises:
            MachineError: if it is none of the run folder, or the disk does not take it.
        """
        within = Path(file)
        if within.is_absolute() or ".." in within.parts:
            raise MachineError(f"{file} is no file of the run folder")
        target = self._folder.path / within
        draft = target.with_name(f".{target.name}.carried")
        try:
            draft.parent.mkdir(exist_ok=True)
            with draft.open("ab" if offset else "wb") as output:
                output.write(data)
                if is_last:
                    output.flush()
                    os.fsync(output.fileno())
            if is_last:
                draft.replace(target)
        except OSError as error:
            raise MachineError(f"{target} cannot be written: {error.strerror}") from None

    def do(self, what: str, given: Mapping[str, Any]) -> None:
        """Do with the draft of a checkpoint what rank 0 asks for; see `CheckpointStore`.

        Raises:
            GmiError: if it cannot be done.
        """
        if what not in self._does:
            raise GmiError(f"expected one of {', '.join(self._does)}, got {what!r}")
        self._does[what](**given)

    def _newest(self) -> Iterator[Path]:
        """Files of the newest checkpoint."""
        for one in list_checkpoints(self._folder.checkpoints)[-1:]:
            yield from one.iterdir()

    def pieces(self) -> Iterator[tuple[str, bytes]]:
        """`files`, each in pieces for one message."""
        for file in self.files():
            for _, data, _ in chunks(self._folder.path / file):
                yield str(file), data
