"""Writes a folder of experience: it is claimed before GMIs start, and its index is written last."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.files import parse, write_atomically
from gmi_drl.replay.files.index import INDEX, MARK, ExperienceIndex, GMIExperience, Shard
from gmi_drl.units import human_bytes


@dataclass
class ExperienceWriter:
    """Collects the shards that GMIs report, for the index. `state` may be set until the end."""

    gmis: Mapping[int, GMIExperience]
    state: Literal["done", "stopped"] = "done"
    _shards: dict[int, list[Shard]] = field(default_factory=dict)

    def add(self, gmi_id: int, shard: Mapping[str, Any]) -> None:
        """Add a complete shard of a GMI."""
        self._shards.setdefault(gmi_id, []).append(parse(Shard, dict(shard), f"a shard of GMI {gmi_id}"))

    def experience(self) -> dict[int, GMIExperience]:
        """Each GMI's experience until now."""
        return {
            gmi_id: gmi.model_copy(update={"shards": tuple(self._shards.get(gmi_id, ()))})
            for gmi_id, gmi in self.gmis.items()
        }


@contextmanager
def write_experience(
    folder: Path, facts: Mapping[str, Any], gmis: Mapping[int, GMIExperience], need_bytes: int
) -> Iterator[ExperienceWriter]:
    """Claim a folder for the time of a `with` block, in which GMIs write shards there.

    When the block ends, also by an error, the index is written; if it fails without any shard, nothing is left. If this
    process is killed, there is no index, and the folder cannot be read.

    Args:
        folder: New, or empty.
        facts: Entries of the index except state and GMIs.
        gmis: The GMIs that will write, without shards.
        need_bytes: Bytes that will be written, at least.

    Raises:
        UsageError: if the folder is not empty.
        MachineError: if it cannot be written, or its disk has no room.
    """
    is_new = not folder.exists()
    _claim(folder)
    current = ExperienceWriter(gmis)
    try:
        _require_room(folder, need_bytes)
        yield current
        _write_index(folder, facts, current.experience(), current.state)
    except BaseException:
        with suppress(OSError, MachineError):  # the first error matters more
            gmis_written = current.experience()
            if any(gmi.shards for gmi in gmis_written.values()) and not (folder / INDEX).exists():
                _write_index(folder, facts, gmis_written, "failed")
        raise
    finally:
        with suppress(OSError):
            for rest in (folder / MARK, *folder.glob(".*.draft")):
                rest.unlink(missing_ok=True)
            if is_new and not any(folder.iterdir()):
                folder.rmdir()


def _claim(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if found := sorted(path.name for path in folder.iterdir()):
            raise UsageError(f"{folder} is not empty, it has {found[0]}: name a new folder for the experience")
        (folder / MARK).touch(exist_ok=False)
    except FileExistsError:  # it is a file, or another process has just claimed it
        raise UsageError(f"{folder} is no empty folder: name a new one for the experience") from None
    except OSError as error:
        raise MachineError(f"{folder}: the experience cannot be written: {error.strerror}") from None


def _require_room(folder: Path, need: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < need:
        has, needs = human_bytes(free), human_bytes(need)
        raise MachineError(f"{folder}: {has} are free, the experience needs {needs}: fewer steps, or another disk")


def _write_index(folder: Path, facts: Mapping[str, Any], gmis: Mapping[int, GMIExperience], state: str) -> None:
    index = ExperienceIndex(**facts, state=state, gmis=dict(gmis))  # type: ignore[arg-type]  # pydantic checks it
    try:
        write_atomically(folder / INDEX, index.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n")
    except OSError as error:
        raise MachineError(f"{folder}: {INDEX} cannot be written: {error.strerror}") from None
