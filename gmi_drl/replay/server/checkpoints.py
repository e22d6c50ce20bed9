"""Checkpoints of a server: the state of one moment, written by a thread while clients go on."""

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.files import former_of, replaced
from gmi_drl.replay.checkpoint import restore, save
from gmi_drl.replay.server.connection import Connection
from gmi_drl.replay.table import Table
from gmi_drl.replay.table_state import TableState
from gmi_drl.replay.words import CHECKPOINT, to_json

KEPT = 2
"""Checkpoints that a server keeps, the newest, beside the one that no trainer has asked for."""

LAST, LAST_NAME = -1, "last"
"""Step and folder of a checkpoint that no trainer has asked for: one by time, or at the end."""


class Checkpoints:
    """Writes and reads the checkpoints of tables.

    Args:
        tables: Of the server.
        folder: Of the checkpoints, each in a folder with its step, which has one for each shard; None for none.
        shard: Of several servers with the same tables and folder, the number of this one.
        shards: How many there are.
    """

    def __init__(self, tables: Sequence[Table], folder: Path | None, shard: int, shards: int) -> None:
        self._folder, self._shard, self._thread = folder, f"shard_{shard}", threading.Thread()
        self._shards = shards
        self._step, self._is_writing = 0, False
        storages = dict.fromkeys(table.storage for table in tables)
        self._sources = {
            f"storage_{number}": TableState(*(table for table in tables if table.storage is storage))
            for number, storage in enumerate(storages)
        }

    @property
    def trainer_step(self) -> int | None:
        """The step of the newest checkpoint, written or restored; 0 if there is none yet, None if none is written."""
        return None if self._folder is None else self._step

    def begin(
        self, connection: Connection, request: int, step: int, call: Callable[[Callable[[], None]], None]
    ) -> None:
        """Take the state of this moment, and let a thread write it and then answer. For the thread of the tables.

        Args:
            connection: Gets the answer.
            request: Of the answer.
            step: The trainer's; `LAST` for a checkpoint that no trainer has asked for.
            call: Calls a function in the thread of the tables.

        Raises:
            UsageError: if there is no folder, or a checkpoint is being written.
        """
        if self._folder is None:
            raise UsageError("this server has no folder for checkpoints: start it with --checkpoints FOLDER")
        if self._is_writing:
            raise UsageError("a checkpoint is being written: wait for its answer")
        if step < LAST:
            raise UsageError(f"a trainer's step is 0 or more, not {step}")
        folder = self._folder / (LAST_NAME if step == LAST else f"{step:012d}")
        step = self._step if step == LAST else step
        with ExitStack() as held:
            taken = {
                name: _Taken(source, held.enter_context(source.snapshot())) for name, source in self._sources.items()
            }
            stack = held.pop_all()

        def written() -> None:
            try:
                with stack:
                    _write(folder / self._shard, taken, step)
                _drop_others(folder, self._shards)
                _drop_old(folder.parent, self._shard)
            except Exception as error:
                failed = error
                call(lambda: self._tell(connection, lambda: connection.send_error(request, failed), self._step))
            else:
                content = to_json(request, {"folder": str(folder.absolute())})
                call(lambda: self._tell(connection, lambda: connection.send(CHECKPOINT, [content]), step))

        self._is_writing = True
        self._thread = threading.Thread(target=written, name="replay checkpoint")
        self._thread.start()

    def restore(self, folder: Path) -> int:
        """Load a checkpoint, the folder of a step. Returns the trainer's step.

        If a server was killed just when it had put its former checkpoint aside, that one is loaded.

        Raises:
            UsageError: if it is missing, altered, or of other tables.
        """
        own = _there(folder).get(self._shard)
        if own is None:
            raise UsageError(f"{folder}: there is no checkpoint of a replay server ({self._shard})")
        steps = {restore(own / name, source) for name, source in self._sources.items()}
        if len(steps) != 1:
            raise UsageError(f"{folder}: its parts are of the steps {', '.join(map(str, sorted(steps)))}")
        (self._step,) = steps
        return self._step

    def wait(self) -> None:
        """Wait until a checkpoint that has begun is written."""
        if self._thread.is_alive():
            self._thread.join()

    def _tell(self, connection: Connection, send: Callable[[], None], step: int) -> None:
        """In the thread of the tables: the newest checkpoint is of this step, and the next may begin."""
        self._is_writing, self._step = False, step
        if connection.framed.is_open:
            send()


class _Taken:
    """A source whose state was taken before."""

    def __init__(self, source: TableState, state: dict[str, Any]) -> None:
        self._source, self._state = source, state

    def facts(self) -> dict[str, Any]:
        return self._source.facts()

    @contextmanager
    def snapshot(self) -> Iterator[dict[str, Any]]:
        yield self._state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._source.load_state_dict(state)


def shards_in(folder: Path) -> int:
    """How many servers have written a checkpoint."""
    return len(_there(folder))


def _there(folder: Path) -> dict[str, Path]:
    """What each server has written, by its name: the newest, or the former one that was put aside."""
    aside = folder.glob(former_of(folder / "shard_*").name)
    former = {path.stem[1:]: path for path in aside if path.is_dir()}
    return former | {path.name: path for path in folder.glob("shard_*") if path.is_dir()}


def _write(folder: Path, sources: Mapping[str, _Taken], step: int) -> None:
    """Write all parts beside the folder, then put them in its place."""
    try:
        with replaced(folder) as draft:
            for name, source in sources.items():
                save(draft / name, source, step)
    except OSError as error:
        raise MachineError(f"{folder}: the checkpoint of replay cannot be written: {error.strerror}") from None


def _drop_others(folder: Path, shards: int) -> None:
    """Remove what servers have written there of which there were more."""
    for name in set(_there(folder)) - {f"shard_{shard}" for shard in range(shards)}:
        for path in (folder / name, former_of(folder / name)):
            shutil.rmtree(path, ignore_errors=True)


def _drop_old(folder: Path, shard: str) -> None:
    """Remove all of a shard but the newest, by the time when they were written: a trainer may have gone back."""
    by_time = sorted(folder.glob(f"[0-9]*/{shard}"), key=lambda one: one.stat().st_mtime_ns)
    for old in by_time[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
        with suppress(OSError):  # other shards have theirs there
            old.parent.rmdir()
