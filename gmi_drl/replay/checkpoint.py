"""Checkpoints of tables and rings: safetensors and JSON in a folder, which is complete or not there."""

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.files import FileModel, load_json, replaced, whole
from gmi_drl.replay.rows_file import write_rows

SCHEMA: Literal["gmi-drl/replay/1"] = "gmi-drl/replay/1"
INDEX, STATE, ROWS = "replay.json", "state.safetensors", "rows.safetensors"


class Source(Protocol):
    """What has checkpoints: a `Ring`, or a table by `TableState`."""

    def facts(self) -> dict[str, Any]:
        """What must be the same at a restore, in JSON."""

    def snapshot(self) -> AbstractContextManager[dict[str, Any]]:
        """Nested dicts of tensors and numbers, of one moment; those under `rows` are read in the `with` block only."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot of a source with the same facts."""


class ReplayIndex(FileModel):
    """The file that says what the others are.

    Args:
        schema_: The version of the format.
        trainer_step: Of the learner, when it was saved.
        facts: Of the source.
        numbers: Of its state, by dotted names.
        sha256: Of the other files, by name.
        own_sha256: Of this file without this entry.
    """

    schema_: Literal["gmi-drl/replay/1"] = Field(alias="schema")
    trainer_step: int
    facts: dict[str, int | str]
    numbers: dict[str, int]
    sha256: dict[str, str]
    own_sha256: str


def save(folder: Path, source: Source, trainer_step: int) -> None:
    """Write a checkpoint beside the folder, then put it in its place. The former one stays until then.

    Args:
        folder: Of this source alone.
        source: Goes on meanwhile, if it is a table.
        trainer_step: To be told at a restore.

    Raises:
        MachineError: if it cannot be written; the former checkpoint is as it was.
    """
    try:
        with replaced(folder) as draft:
            with source.snapshot() as state:
                tensors, numbers = flattened({name: part for name, part in state.items() if name != "rows"})
                write_rows(draft / ROWS, state["rows"])
            write_files(draft, source.facts(), tensors, numbers, (ROWS,), trainer_step)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MachineError(f"{folder}: the checkpoint of replay cannot be written: {reason}") from None


def restore(folder: Path, source: Source) -> int:
    """Load the checkpoint in a folder. Returns the trainer's step.

    If a save was interrupted just when the former checkpoint had been put aside, that one is loaded.

    Raises:
        UsageError: if it is missing, altered, or of a source with other facts; then the source is as it was.
    """
    folder = whole(folder)
    index = read_index(folder, {STATE, ROWS})
    own, names = source.facts(), sorted({*source.facts(), *index.facts})
    differences = [
        f"{name} was {index.facts.get(name)}, is {own.get(name)}"
        for name in names
        if own.get(name) != index.facts.get(name)
    ]
    if differences:
        raise UsageError(f"{folder} is of another source: {'; '.join(differences)}")
    tensors = {name: read_tensors(folder, name, index) for name in (STATE, ROWS)}
    source.load_state_dict(nested(tensors[STATE] | index.numbers) | {"rows": tensors[ROWS]})
    return index.trainer_step


def write_files(
    folder: Path,
    facts: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    numbers: Mapping[str, int],
    others: Collection[str],
    trainer_step: int = 0,
) -> None:
    """Write the state and the index into a folder that has the other files, and wait until all are on the disk.

    Raises:
        OSError, SafetensorError: if they cannot be written.
    """
    save_file(dict(tensors), folder / STATE)
    digests = {name: _digest_of(folder / name) for name in (STATE, *others)}
    entries = {"schema": SCHEMA, "trainer_step": trainer_step, "facts": facts, "numbers": numbers}
    entries |= {"sha256": digests}
    text = json.dumps(entries | {"own_sha256": _digest(entries)}, indent=1)
    (folder / INDEX).write_text(text + "\n")
    for name in (STATE, *others, INDEX):
        _sync(folder / name)


def read_index(folder: Path, files: Collection[str]) -> ReplayIndex:
    """Read the index of a folder with these files.

    Raises:
        UsageError: if it is missing, altered, or of other files.
    """
    index = load_json(ReplayIndex, folder / INDEX, "checkpoint of replay")
    entries = index.model_dump(mode="json", by_alias=True, exclude={"own_sha256"})
    if index.own_sha256 != _digest(entries):
        raise UsageError(f"{folder / INDEX} was changed since it was written")
    if index.sha256.keys() != set(files):
        raise UsageError(f"{folder / INDEX} is of {', '.join(sorted(index.sha256))}, not {', '.join(sorted(files))}")
    return index


def read_tensors(folder: Path, name: str, index: ReplayIndex) -> dict[str, Tensor]:
    """The tensors of a file.

    Raises:
        UsageError: if it is missing, or altered.
    """
    check_digest(folder, name, index)
    try:
        return load_file(folder / name)
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{folder / name} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def check_digest(folder: Path, name: str, index: ReplayIndex) -> None:
    """Raise unless a file is as it was written.

    Raises:
        UsageError: if it is missing, or altered.
    """
    try:
        if _digest_of(folder / name) != index.sha256[name]:
            raise UsageError(f"{folder / name} was changed since it was written")
    except OSError as error:
        raise UsageError(f"{folder / name} cannot be read: {error.strerror}") from None


def _digest_of(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _digest(entries: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def flattened(state: Mapping[str, Any], name: str = "") -> tuple[dict[str, Tensor], dict[str, int]]:
    """The tensors and the numbers in nested dicts, by dotted names."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, int] = {}
    for key, value in state.items():
        place = f"{name}.{key}" if name else key
        if isinstance(value, Mapping):
            below = flattened(value, place)
            tensors |= below[0]
            numbers |= below[1]
        elif isinstance(value, Tensor):
            tensors[place] = value.contiguous().cpu()
        else:
            numbers[place] = value
    return tensors, numbers


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The nested dicts of values by dotted names."""
    found: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inner = found
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return found
