"""A folder for experience, as long as it is written: taken before anything starts, its index comes last."""

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
class Writing:
    """The shards that GMIs tell of, by GMI, and how it ended."""

    gmis: Mapping[int, GMIExperience]
    state: Literal["done", "stopped"] = "done"
    _shards: dict[int, list[Shard]] = field(default_factory=dict)

    def add(self, gmi_id: int, told: Mapping[str, Any]) -> None:
        """One more shard of a GMI, which is whole."""
        self._shards.setdefault(gmi_id, []).append(parse(Shard, dict(told), f"a shard of GMI {gmi_id}"))

    def so_far(self) -> dict[int, GMIExperience]:
        """What there is of each GMI."""
        return {
            gmi_id: gmi.model_copy(update={"shards": tuple(self._shards.get(gmi_id, ()))})
            for gmi_id, gmi in self.gmis.items()
        }


@contextmanager
def writing(
    folder: Path, facts: Mapping[str, Any], gmis: Mapping[int, GMIExperience], need_bytes: int
) -> Iterator[Writing]:
    """Have a folder for oneself for the time of a `with` block in which GMIs write shards there.

    At its end the index is written, of what there is then, however the block ends; only where it fails without one
    shard nothing stays. A writer that is killed leaves no index, so nothing that can be read.

    Args:
        folder: New, or empty.
        facts: The index but for its state and GMIs.
        gmis: Who will write, without shards.
        need_bytes: What will be written, at least.

    Raises:
        UsageError: if there is something in the folder.
        MachineError: if it cannot be written, or its disk has no room.
    """
    is_new = not folder.exists()
    _take(folder)
    current = Writing(gmis)
    try:
        _require_room(folder, need_bytes)
        yield current
        _conclude(folder, facts, current.so_far(), current.state)
    except BaseException:
        with suppress(OSError, MachineError):  # what ended it is the news
            gmis_so_far = current.so_far()
            if any(gmi.shards for gmi in gmis_so_far.values()) and not (folder / INDEX).exists():
                _conclude(folder, facts, gmis_so_far, "failed")
        raise
    finally:
        with suppress(OSError):
            for rest in (folder / MARK, *folder.glob(".*.draft")):
                rest.unlink(missing_ok=True)
            if is_new and not any(folder.iterdir()):
                folder.rmdir()


def _take(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if found := sorted(path.name for path in folder.iterdir()):
            raise UsageError(f"{folder} is not empty, it has {found[0]}: name a new folder for the experience")
        (folder / MARK).touch(exist_ok=False)
    except FileExistsError:  # it is a file, or another one was a moment earlier
        raise UsageError(f"{folder} is no empty folder: name a new one for the experience") from None
    except OSError as error:
        raise MachineError(f"{folder}: the experience cannot be written: {error.strerror}") from None


def _require_room(folder: Path, need: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < need:
        has, wants = human_bytes(free), human_bytes(need)
        raise MachineError(f"{folder}: {has} are free, the experience needs {wants}: fewer steps, or another disk")


def _conclude(folder: Path, facts: Mapping[str, Any], gmis: Mapping[int, GMIExperience], state: str) -> None:
    index = ExperienceIndex(**facts, state=state, gmis=dict(gmis))  # type: ignore[arg-type]  # pydantic checks it
    try:
        write_atomically(folder / INDEX, index.model_dump_json(by_alias=True, indent=1) + "\n")
    except OSError as error:
        raise MachineError(f"{folder}: {INDEX} cannot be written: {error.strerror}") from None
