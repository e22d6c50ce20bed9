"""Checkpoints: a folder of safetensors files, and a `checkpoint.json` with their digests.

Parts are written to a draft folder, which is renamed when all are complete: a checkpoint exists whole or not at all.
"""

import hashlib
import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.files import sync_folder, write_atomically
from gmi_drl.units import human_bytes

if TYPE_CHECKING:
    from torch import Tensor  # imported where tensors are: listing checkpoints needs no torch

SCHEMA = "gmi-drl/checkpoint/4"
UNSEALED = "gmi-drl/checkpoint/3"
"""The schema of earlier versions, whose index has no digest of its own. It is read, so that their runs can go on."""

INDEX = "checkpoint.json"
LEARNER_PART = "learner"
"""The name of the part that has the policy, and what learns it."""

FACTS: Mapping[str, type | UnionType] = {
    "iteration": int,
    "env_steps": int,
    "layout": str,
    "num_env": int,
    "learner": str,
    "learning_rate": int | float,
}
"""Entries of the index besides its parts: progress, digests of layout and learner, environments in all."""

EVALUATED, BEST = "eval_return", "best_return"
"""Further entries of the index, if the run is evaluated: the mean return of this iteration's evaluation, and the best
one so far."""

NO_TRAINING = {"iteration": 0, "env_steps": 0, "layout": "", "num_env": 0, "learner": "", "learning_rate": 0.0}
"""Entries of a checkpoint that has only a policy, from which no training can go on."""


def draft(checkpoints: Path, iteration: int) -> Path:
    """The folder for the parts of a checkpoint until it is complete."""
    return checkpoints / f".{iteration:06d}.draft"


def drop_drafts(checkpoints: Path) -> None:
    """Remove incomplete checkpoints, which a crash may leave."""
    for folder in checkpoints.glob(".*.draft"):
        shutil.rmtree(folder)


def drop_later(checkpoints: Path, iteration: int) -> None:
    """Remove the checkpoints after an iteration from which a run goes on."""
    for path in list_checkpoints(checkpoints):
        if int(path.name) > iteration:
            shutil.rmtree(path)


def write_part(folder: Path, name: str, tensors: Mapping[str, "Tensor"]) -> Path:
    """Write one part, `NAME.safetensors`, of a draft. Returns its file.

    Raises:
        MachineError: if it cannot be written.
    """
    from gmi_drl.run.tensor_file import pieces_of

    try:
        folder.mkdir(exist_ok=True)
        write_atomically(folder / _file_of(name), pieces_of(tensors))
    except OSError as error:
        raise MachineError(f"{folder.parent.resolve()}: the checkpoint cannot be written: {error.strerror}") from None
    return folder / _file_of(name)


def commit(checkpoints: Path, iteration: int, facts: Mapping[str, Any], kept: int) -> Path:
    """Make a draft with all its parts the newest checkpoint. Removes all but the `kept` newest and the best.

    Raises:
        MachineError: if it cannot be written.
    """
    folder, target = draft(checkpoints, iteration), checkpoints / f"{iteration:06d}"
    try:
        parts = {file.name: _digest(file) for file in sorted(folder.glob("*.safetensors"))}
        index = {"schema": SCHEMA, "iteration": iteration, **facts, "parts": parts}
        write_atomically(folder / INDEX, json.dumps(index | {"digest": _index_digest(index)}, indent=2) + "\n")
        sync_folder(folder)  # contents must be on the disk before the new name
        shutil.rmtree(target, ignore_errors=True)  # a checkpoint that lost its index
        folder.rename(target)
        sync_folder(checkpoints)
        best = best_checkpoint(checkpoints)
        for old in list_checkpoints(checkpoints)[:-kept]:
            if old == best:
                continue
            old.rename(draft(checkpoints, int(old.name)))  # so that no half of it is left under its name
        drop_drafts(checkpoints)
    except OSError as error:
        raise MachineError(f"{checkpoints.resolve()}: the checkpoint cannot be written: {error.strerror}") from None
    return target


def require_room(folder: Path, most: int, growth: int = 0) -> None:
    """Check that the disk has room for `most` checkpoints like the draft in this folder; it and others there count.

    Args:
        folder: Of the draft.
        most: How many there are at once.
        growth: Bytes that later ones are larger by; all that are there now are replaced by such.

    Raises:
        MachineError: with the numbers.
    """
    more = max(0, most - 1 - len(list_checkpoints(folder.parent)))
    need = more * sum(file.stat().st_size for file in folder.iterdir()) + most * growth
    require_free(folder.parent, need, "the checkpoints to come need")


def require_free(folder: Path, need: int, what: str) -> None:
    """Check that the disk of a folder has `need` bytes left.

    Args:
        folder: Must exist.
        need: Bytes.
        what: Subject and verb of the error message, "the checkpoints to come need".

    Raises:
        MachineError: with the numbers.
    """
    free = shutil.disk_usage(folder).free
    if free < need:
        raise MachineError(f"{folder.resolve()}: {human_bytes(free)} are free, {what} {human_bytes(need)}")


def list_checkpoints(checkpoints: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    complete = [path.parent for path in checkpoints.glob(f"*/{INDEX}") if path.parent.name.isdecimal()]
    return sorted(complete, key=lambda path: int(path.name))


def best_checkpoint(checkpoints: Path) -> Path | None:
    """The complete checkpoint with the best evaluation; None if none was evaluated."""
    returns = {path: _evaluated(path) for path in list_checkpoints(checkpoints)}
    evaluated = {path: value for path, value in returns.items() if value is not None}
    return max(evaluated, key=evaluated.__getitem__) if evaluated else None


def _evaluated(checkpoint: Path) -> float | None:
    """The mean return in an index, which is not checked here."""
    try:
        value = json.loads((checkpoint / INDEX).read_text()).get(EVALUATED)
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return value if isinstance(value, int | float) else None


def read_index(checkpoint: Path, parts: Collection[str] | None = None) -> dict[str, Any]:
    """The index of a checkpoint, after checking it and parts against their digests.

    Args:
        checkpoint: Its folder.
        parts: The names of these parts; None: all. `read_part` checks others when it reads them.

    Raises:
        UsageError: naming the file that is broken or was changed.
    """
    remedy = _remedy(checkpoint)
    index = _read_sealed(checkpoint, remedy)
    if int(checkpoint.name) != index["iteration"]:
        named = f"its index has iteration {index['iteration']}: give the folder its name back, {index['iteration']:06d}"
        raise UsageError(f"{checkpoint} was renamed, {named}, or {remedy}")
    for file in index["parts"] if parts is None else map(_file_of, parts):
        if not (checkpoint / file).is_file() or _digest(checkpoint / file) != index["parts"].get(file):
            raise _changed(checkpoint, file)
    return index


def _remedy(checkpoint: Path) -> str:
    return f"move {checkpoint} away to use the checkpoint before it"


def _changed(checkpoint: Path, file: str) -> UsageError:
    return UsageError(f"{checkpoint}: {file} is missing or was changed since it was written: {_remedy(checkpoint)}")


def _file_of(part: str) -> str:
    return f"{part}.safetensors"


def _read_sealed(checkpoint: Path, remedy: str) -> dict[str, Any]:
    """The index, if it is complete and unchanged."""
    try:
        index = json.loads((checkpoint / INDEX).read_text())
        schema = index["schema"]
        if schema not in (SCHEMA, UNSEALED):
            differs = f"schema {schema!r}, this version reads {SCHEMA!r} and {UNSEALED!r}"
            raise UsageError(f"{checkpoint}: {differs}: resume with the gmi-drl that began the run (versions.json)")
        seal = index.pop("digest") if schema == SCHEMA else _index_digest(index)
        is_whole = all(isinstance(index[name], kind) for name, kind in FACTS.items())
        if not is_whole or not isinstance(index["parts"], dict) or not index["parts"]:
            raise ValueError
    except FileNotFoundError:
        raise UsageError(f"{checkpoint}: {INDEX} is missing: {remedy}") from None
    except OSError as error:
        raise UsageError(f"{checkpoint}: {INDEX} cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UsageError(f"{checkpoint}: {INDEX} is broken: {remedy}") from None
    if seal != _index_digest(index):
        raise UsageError(f"{checkpoint}: {INDEX} was changed since it was written: {remedy}")
    return dict(index)


def read_part(checkpoint: Path, name: str, index: Mapping[str, Any] | None = None) -> dict[str, "Tensor"]:
    """The tensors of one part, on the CPU.

    Args:
        checkpoint: Its folder.
        name: Of the part.
        index: Of `read_index`, which has its digest; None: the digest is not checked here.

    Raises:
        UsageError: if it cannot be read, or was changed since it was written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    file = _file_of(name)
    try:
        data = (checkpoint / file).read_bytes()
        if index is not None and hashlib.sha256(data).hexdigest() != index["parts"].get(file):
            raise _changed(checkpoint, file)
        return load(data)
    except FileNotFoundError:
        raise _changed(checkpoint, file) from None
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{checkpoint}: {file} cannot be read: {error}") from None


def prefixed(prefix: str, tensors: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
    """Put `prefix.` before every name."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def with_prefix(prefix: str, tensors: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
    """The tensors whose names begin with `prefix.`, without it."""
    return {name.removeprefix(f"{prefix}."): t for name, t in tensors.items() if name.startswith(f"{prefix}.")}


def _index_digest(index: Mapping[str, Any]) -> str:
    """The digest of an index, independent of the order of its entries and of the format of the file."""
    return hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
