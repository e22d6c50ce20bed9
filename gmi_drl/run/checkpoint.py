"""Checkpoints: a folder of safetensors files and a `checkpoint.json` that vouches for them.

Parts are written to a draft folder, which gets its name when all are complete: a checkpoint exists whole or not at all.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.files import write_atomically
from gmi_drl.units import human_bytes

if TYPE_CHECKING:
    from torch import Tensor  # imported where tensors are: listing checkpoints needs no torch

SCHEMA = "gmi-drl/checkpoint/3"
INDEX = "checkpoint.json"
FACTS = ("iteration", "env_steps", "layout", "num_env", "learner", "learning_rate")
"""What the index tells beside its parts: how far the run is, digests of layout and learner, environments in all."""


def draft(checkpoints: Path, iteration: int) -> Path:
    """Where the parts of a checkpoint are gathered."""
    return checkpoints / f".{iteration:06d}.draft"


def drop_drafts(checkpoints: Path) -> None:
    """Remove what a crash left half-written."""
    for folder in checkpoints.glob(".*.draft"):
        shutil.rmtree(folder)


def write_part(folder: Path, name: str, tensors: Mapping[str, "Tensor"]) -> Path:
    """Write one part, `NAME.safetensors`, of a draft. Returns its file.

    Raises:
        MachineError: if the disk does not take it.
    """
    from safetensors.torch import save

    contiguous = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
    try:
        folder.mkdir(exist_ok=True)
        write_atomically(folder / f"{name}.safetensors", save(contiguous))
    except OSError as error:
        raise MachineError(f"{folder.parent.resolve()}: the checkpoint cannot be written: {error.strerror}") from None
    return folder / f"{name}.safetensors"


def commit(checkpoints: Path, iteration: int, facts: Mapping[str, Any], kept: int) -> Path:
    """Make a draft whose parts are all written the newest checkpoint, and keep the `kept` newest.

    Raises:
        MachineError: if the disk does not take it.
    """
    folder, target = draft(checkpoints, iteration), checkpoints / f"{iteration:06d}"
    try:
        parts = {file.name: _digest(file) for file in sorted(folder.glob("*.safetensors"))}
        index = {"schema": SCHEMA, "iteration": iteration, **facts, "parts": parts}
        write_atomically(folder / INDEX, json.dumps(index, indent=2) + "\n")
        _sync_folder(folder)  # what the new name stands for must be there before it
        shutil.rmtree(target, ignore_errors=True)  # what lost its index
        folder.rename(target)
        _sync_folder(checkpoints)
        for old in list_checkpoints(checkpoints)[:-kept]:
            old.rename(draft(checkpoints, int(old.name)))  # so that half of it is never left under its name
        drop_drafts(checkpoints)
    except OSError as error:
        raise MachineError(f"{checkpoints.resolve()}: the checkpoint cannot be written: {error.strerror}") from None
    return target


def require_room(folder: Path, more: int) -> None:
    """Check that the disk takes `more` checkpoints like the one in this folder.

    Raises:
        MachineError: with the numbers.
    """
    need = more * sum(file.stat().st_size for file in folder.iterdir())
    require_free(folder.parent, need, "the checkpoints to come need")


def require_free(folder: Path, need: int, what: str) -> None:
    """Check that the disk of a folder has so many bytes left.

    Args:
        folder: Which is there.
        need: Bytes.
        what: Says for the error what needs them.

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


def read_index(checkpoint: Path) -> dict[str, Any]:
    """The facts of a checkpoint, after checking every part against its digest.

    Raises:
        UsageError: naming the part that is broken.
    """
    remedy = f"delete {checkpoint} to resume from the checkpoint before it"
    try:
        index: dict[str, Any] = json.loads((checkpoint / INDEX).read_text())
        if index["schema"] != SCHEMA:
            differs = f"schema {index['schema']!r}, this version reads {SCHEMA!r}"
            raise UsageError(f"{checkpoint}: {differs}: resume with the gmi-drl that began the run (versions.json)")
        parts = dict(index["parts"])
        missing = [name for name in FACTS if name not in index]
        if missing or not parts:
            raise KeyError(*missing)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(f"{checkpoint}: {INDEX} is missing or broken: {remedy}") from None
    for name, digest in parts.items():
        if not (checkpoint / name).is_file() or _digest(checkpoint / name) != digest:
            raise UsageError(f"{checkpoint}: {name} is missing or was changed since it was written: {remedy}")
    return index


def read_part(checkpoint: Path, name: str) -> dict[str, "Tensor"]:
    """The tensors of one part, on the CPU."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load((checkpoint / f"{name}.safetensors").read_bytes())
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{checkpoint}: {name}.safetensors cannot be read: {error}") from None


def prefixed(prefix: str, tensors: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
    """Put `prefix.` before every name."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def with_prefix(prefix: str, tensors: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
    """The tensors whose names begin with `prefix.`, without it."""
    return {name.removeprefix(f"{prefix}."): t for name, t in tensors.items() if name.startswith(f"{prefix}.")}


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
