"""Checkpoints of a server: the state of one moment, written by a thread while clients go on."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.replay.checkpoint import restore, save
from gmi_drl.replay.server.connection import Connection
from gmi_drl.replay.table import Table
from gmi_drl.replay.table_state import TableState
from gmi_drl.replay.words import CHECKPOINT, to_json

KEPT = 2
"""Checkpoints that a server keeps, the newest."""


class Checkpoints:
    """Writes and reads the checkpoints of tables.

    Args:
        tables: Of the server.
        folder: Of the checkpoints, each in a folder with its step; None for none.
    """

    def __init__(self, tables: Sequence[Table], folder: Path | None) -> None:
        self._folder, self._thread = folder, threading.Thread()
        storages = dict.fromkeys(table.storage for table in tables)
        self._sources = {
            f"storage_{number}": TableState(*(table for table in tables if table.storage is storage))
            for number, storage in enumerate(storages)
        }

    def begin(
        self, connection: Connection, request: int, step: int, call: Callable[[Callable[[], None]], None]
    ) -> None:
        """Take the state of this moment, and let a thread write it and then answer. For the thread of the tables.

        Raises:
            UsageError: if there is no folder, or a checkpoint is being written.
        """
        if self._folder is None:
            raise UsageError("this server has no folder for checkpoints: start it with --checkpoints FOLDER")
        if self._thread.is_alive():
            raise UsageError("a checkpoint is being written: wait for its answer")
        if step < 0:
            raise UsageError(f"a trainer's step is 0 or more, not {step}")
        folder, stack = self._folder / f"{step:012d}", ExitStack()
        taken = {name: _Taken(source, stack.enter_context(source.snapshot())) for name, source in self._sources.items()}

        def written() -> None:
            try:
                with stack:
                    _write(folder, taken, step)
                _drop_old(folder.parent)
            except Exception as error:
                failed = error
                call(lambda: _tell(connection, lambda: connection.send_error(request, failed)))
            else:
                content = to_json(request, {"folder": str(folder.absolute())})
                call(lambda: _tell(connection, lambda: connection.send(CHECKPOINT, [content])))

        self._thread = threading.Thread(target=written, name="replay checkpoint")
        self._thread.start()

    def restore(self, folder: Path) -> int:
        """Load a checkpoint. Returns the trainer's step.

        Raises:
            UsageError: if it is missing, altered, or of other tables.
        """
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such checkpoint of replay")
        steps = {restore(folder / name, source) for name, source in self._sources.items()}
        if len(steps) != 1:
            raise UsageError(f"{folder}: its parts are of the steps {', '.join(map(str, sorted(steps)))}")
        return steps.pop()

    def wait(self) -> None:
        """Wait until a checkpoint that has begun is written."""
        if self._thread.is_alive():
            self._thread.join()


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


def newest(folder: Path) -> Path | None:
    """The newest complete checkpoint in a folder of checkpoints."""
    found = _complete(folder)
    return found[-1] if found else None


def _complete(folder: Path) -> list[Path]:
    return sorted(one for one in folder.glob("[0-9]*") if one.is_dir()) if folder.is_dir() else []


def _write(folder: Path, sources: Mapping[str, _Taken], step: int) -> None:
    """Write all parts beside the folder, then put them in its place."""
    draft, former = (folder.with_name(f".{folder.name}.{kind}") for kind in ("draft", "former"))
    try:
        for name, source in sources.items():
            save(draft / name, source, step)
        shutil.rmtree(former, ignore_errors=True)
        if folder.exists():
            folder.rename(former)
        draft.rename(folder)
        _sync(folder.parent)
        shutil.rmtree(former, ignore_errors=True)
    except OSError as error:
        raise MachineError(f"{folder}: the checkpoint of replay cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _drop_old(folder: Path) -> None:
    """Remove all but the newest, by the time when they were written: a trainer may have gone back."""
    by_time = sorted(_complete(folder), key=lambda one: one.stat().st_mtime_ns)
    for old in by_time[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def _tell(connection: Connection, send: Callable[[], None]) -> None:
    if connection.framed.is_open:
        send()
