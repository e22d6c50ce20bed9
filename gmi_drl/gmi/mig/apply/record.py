"""What is kept of a GPU while its instances are others than before: enough to restore it, whoever does it and when.

Ids and UUIDs follow from the place (NVIDIA's open kernel modules, `nvGenerateSmcUuid`): what somebody else has made at
the same place cannot be told from ours. Whoever has claimed it keeps it: see `busy`.
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
    """Of one GPU.

    Args:
        boot: Of the machine (`boot_id`): instances do not survive the next one, the mode may (on Ampere).
        before: What was there.
        places: Profiles and starts of the GPU instances that are being made.
        made: What was there when all were made; None before. From then on only these are ours.
    """

    boot: str
    before: MigState
    places: tuple[tuple[str, int], ...] = ()
    made: MigState | None = None

    def about_to_make(self, places: list[tuple[str, int]]) -> Self:
        """To be kept before anything is changed."""
        return replace(self, places=tuple({*self.places, *places}), made=None)

    def sealed(self, made: MigState) -> Self:
        """To be kept when all is made."""
        return replace(self, made=made)

    def of_this_boot(self) -> Self | None:
        """What is left of it: after another boot, that MIG mode was off; None if nothing is."""
        if self.boot == boot_id():
            return self
        return None if self.before.enabled else replace(self, boot=boot_id(), places=(), made=None)

    def is_ours(self, instance: GpuInstance) -> bool:
        """Whether we have made a GPU instance at a place where none was, and nobody has put others into it since."""
        if self.made is None:
            return instance.place in self.places
        known = next((one for one in self.made.instances if one.place == instance.place), None)
        return known is not None and instance.place in self.places and set(instance.compute) <= set(known.compute)

    def is_our_part(self, part: ComputeInstance) -> bool:
        """Whether we have made a compute instance that was not there."""
        return self.made is None or any(part in instance.compute for instance in self.made.instances)

    def to_json(self) -> dict[str, Any]:
        """For a note or a file."""
        made = self.made.to_json() if self.made else None
        return {"boot": self.boot, "before": self.before.to_json(), "places": self.places, "made": made}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What `to_json` has made. Raises KeyError or TypeError for anything else."""
        places = tuple((str(profile), int(start)) for profile, start in data["places"])
        made = MigState.from_json(data["made"]) if data["made"] else None
        return cls(data["boot"], MigState.from_json(data["before"]), places, made)


def boot_id() -> str:
    """Another one each time that the machine starts (`proc(5)`, sys/kernel/random/boot_id)."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def record_file(gpu: str) -> Path:
    """Where the record of a GPU lies, by its UUID: beside the locks, in a folder that only we can write."""
    return claims_folder() / f"mig-{gpu}.json"


def write_record(record: Record) -> None:
    """Keep it in its file, for a next run if this one and its keeper are killed.

    Raises:
        MachineError: if the disk does not take it. Nothing may be changed then.
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
    """What an earlier run has left; None if it left nothing that has outlived the boot."""
    try:
        record = Record.from_json(json.loads(record_file(gpu).read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        path = record_file(gpu)
        raise MachineError(
            f"{path} is no record of MIG instances ({error}): look at `nvidia-smi mig -lgi`, remove it"
        ) from None
    return record.of_this_boot()


def drop_record(gpu: str) -> None:
    """The GPU is as it was."""
    record_file(gpu).unlink(missing_ok=True)
