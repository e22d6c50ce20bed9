"""Records of GPUs whose MIG instances were changed, from which any later process can restore them.

Ids and UUIDs follow from the place (NVIDIA's open kernel modules, `nvGenerateSmcUuid`). So an instance that another
program has made at the same place looks like ours; it stays if it is claimed or in use (see `busy`).
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from gmi_drl.errors import MachineError
from gmi_drl.gmi.claims import claims_folder
from gmi_drl.gmi.mig.state import ComputeInstance, GpuInstance, MigState


@dataclass(frozen=True)
class Record:
    """The record of one GPU.

    Args:
        boot: The machine's `boot_id`: instances do not survive a reboot, the mode may (on Ampere).
        before: The state before the first change.
        places: Profiles and starts of the GPU instances that are made.
        made: The state when all were made, None until then. Afterwards only its instances are ours.
    """

    boot: str
    before: MigState
    places: tuple[tuple[str, int], ...] = ()
    made: MigState | None = None

    def about_to_make(self, places: list[tuple[str, int]]) -> Self:
        """The record to write before these instances are made."""
        return replace(self, places=tuple({*self.places, *places}), made=None)

    def sealed(self, made: MigState) -> Self:
        """The record to write when all instances are made."""
        return replace(self, made=made)

    def of_this_boot(self) -> Self | None:
        """The part that still holds: after a reboot only that MIG mode was off; None if nothing does."""
        if self.boot == boot_id():
            return self
        return None if self.before.enabled else replace(self, boot=boot_id(), places=(), made=None)

    def is_ours(self, instance: GpuInstance) -> bool:
        """Whether a GPU instance is at a place where we make one, with no compute instance that is not ours."""
        if self.made is None:
            return instance.place in self.places
        known = next((one for one in self.made.instances if one.place == instance.place), None)
        return known is not None and instance.place in self.places and set(instance.compute) <= set(known.compute)

    def is_our_part(self, part: ComputeInstance) -> bool:
        """Whether a compute instance is one that we have made."""
        return self.made is None or any(part in instance.compute for instance in self.made.instances)

    def to_json(self) -> dict[str, Any]:
        """As JSON data, for a note or a file."""
        made = self.made.to_json() if self.made else None
        return {"boot": self.boot, "before": self.before.to_json(), "places": self.places, "made": made}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read data of `to_json`. Raises KeyError or TypeError if it is anything else."""
        places = tuple((str(profile), int(start)) for profile, start in data["places"])
        made = MigState.from_json(data["made"]) if data["made"] else None
        return cls(data["boot"], MigState.from_json(data["before"]), places, made)


def boot_id() -> str:
    """An id that changes each time the machine boots (`proc(5)`, sys/kernel/random/boot_id)."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def record_file(gpu: str) -> Path:
    """The file of a GPU's record: beside the locks, in a folder that only this user can write."""
    return claims_folder() / f"mig-{gpu}.json"


def write_record(record: Record) -> None:
    """Write a record into its file, for the next run in case this one and its watchdog are killed.

    Raises:
        MachineError: if it cannot be written. Nothing may be changed then.
    """
    path = record_file(record.before.gpu)
    draft = path.with_suffix(".new")
    try:
        with suppress(FileNotFoundError):
            draft.unlink()
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(record.to_json(), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise MachineError(f"{path} cannot be written ({error.strerror}), so no MIG instance is changed") from None


def read_record(gpu: str) -> Record | None:
    """Read the record that an earlier run has left; None if there is none that holds after the last boot.

    Raises:
        MachineError: if the file cannot be read.
    """
    try:
        record = Record.from_json(json.loads(record_file(gpu).read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        path = record_file(gpu)
        raise MachineError(
            f"{path} is no record of MIG instances ({error}): look at `nvidia-smi mig -lgi`, then remove the file"
        ) from None
    return record.of_this_boot()


def drop_record(gpu: str) -> None:
    """Remove the file of a record: the GPU is as it was before."""
    record_file(gpu).unlink(missing_ok=True)
