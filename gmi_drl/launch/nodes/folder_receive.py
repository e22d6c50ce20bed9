"""Receives files and checkpoints for the run folder from hosts that do not see it."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gmi_drl.errors import GmiError, MachineError
from gmi_drl.launch.frozen_policies import FrozenPolicy
from gmi_drl.launch.nodes.folder_upload import chunks
from gmi_drl.run.checkpoint import INDEX, list_checkpoints
from gmi_drl.run.checkpoint_store import CheckpointStore
from gmi_drl.run.folder import RunFolder


class FolderReceiver:
    """Writes what GMIs on other hosts send into the run folder.

    Args:
        folder: The run folder.
        folder_of: Returns the folder where a GMI saves: the run folder, or that of its policy in it.
        restored: The folders whose newest checkpoint GMIs there read. Actors get what they act by from trainers.
        parts: The parts of it that they read; None: all.
        frozen: The frozen policies by which GMIs there act.
    """

    def __init__(
        self,
        folder: RunFolder,
        folder_of: Callable[[int], RunFolder],
        *,
        restored: Sequence[RunFolder],
        parts: Collection[str] | None = None,
        frozen: Sequence[FrozenPolicy] = (),
    ) -> None:
        self._folder, self._folder_of, self._restored, self._frozen = folder, folder_of, restored, frozen
        self._parts = parts

    def files(self) -> Iterator[Path]:
        """Yield the files that a copy of the run folder needs at first: the setup, and what GMIs there read."""
        several = [one for one in self._folder.learning if one.path != self._folder.path]
        frozen = [one.folder for one in self._frozen]
        setup = [file for one in (self._folder, *several, *frozen) for file in (one.layout_file, one.config_file)]
        for file in (*setup, *_newest(self._restored, self._parts), *_newest(frozen)):
            yield file.relative_to(self._folder.path)

    def size(self) -> int:
        """The size in bytes of the checkpoints that are sent. The setup is small, and perhaps not written yet.

        Nor are the copies of frozen policies.
        """
        own = sum(file.stat().st_size for file in _newest(self._restored, self._parts))
        return own + sum(one.size() for one in self._frozen)

    def take(self, file: str, offset: int, data: bytes, *, is_last: bool) -> None:
        """Append a piece to a draft of a file. The last piece renames it to `file`.

        Raises:
            MachineError: if the file is outside of the run folder, or cannot be written.
        """
        within = Path(file)
        if within.is_absolute() or ".." in within.parts:
            raise MachineError(f"a node sent {file!r}, which is outside of the run folder: it was not written")
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

    def do(self, gmi_id: int, what: str, given: Mapping[str, Any]) -> None:
        """Execute a GMI's command on the draft of its checkpoint; see `CheckpointStore`.

        Raises:
            GmiError: if there is no such command, or it fails.
        """
        store = CheckpointStore(self._folder_of(gmi_id).checkpoints)
        known: Mapping[str, Callable[..., None]] = {
            "require_room": store.require_room,
            "commit": store.commit,
            "drop_drafts": store.drop_drafts,
        }
        if what not in known:
            raise GmiError(f"a node asked for the unknown command {what!r}; known are {', '.join(known)}")
        known[what](**given)

    def pieces(self) -> Iterator[tuple[str, bytes]]:
        """Yield `files` in pieces that fit into a message, each with its file."""
        for file in self.files():
            for _, data, _ in chunks(self._folder.path / file):
                yield str(file), data


def _newest(folders: Iterable[RunFolder], parts: Collection[str] | None = None) -> Iterator[Path]:
    """The files of the newest checkpoint of each of some folders: the index, and these parts; None: all."""
    for folder in folders:
        for one in list_checkpoints(folder.checkpoints)[-1:]:
            yield from (file for file in one.iterdir() if parts is None or file.name == INDEX or file.stem in parts)
