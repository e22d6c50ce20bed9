"""Who uses MIG devices: processes, and runs of any user that have claimed them."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from gmi_drl.gmi.claims import claims_folder, locked
from gmi_drl.gmi.inventory import VisibleGpu, nvml_open
from gmi_drl.gmi.inventory.nvml import pids_on, query
from gmi_drl.gmi.mig.driver import MigDriver
from gmi_drl.gmi.mig.state import ComputeInstance, MigState

FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""The inode of the host's PID namespace (PROC_PID_INIT_INO in Linux's include/linux/proc_ns.h)."""


NODES = "see /dev/nvidia-caps, of which a container has what was there when it started"
"""What a process needs to open MIG devices."""


def users(driver: MigDriver, state: MigState) -> dict[int, str]:
    """Descriptions of the users of a GPU's instances, by the ids of those in use."""
    found = {instance.id: users_of(driver, instance.compute) for instance in state.instances}
    return {instance_id: who for instance_id, who in found.items() if who}


def users_of(driver: MigDriver, parts: Sequence[ComputeInstance]) -> str:
    """A description of who uses any of these compute instances; empty if nobody does."""
    if not all(part.uuid for part in parts):
        return f"whoever may open it: this process may not ({NODES})"
    claims = claimed_elsewhere()
    if pids := sorted({pid for part in parts for pid in driver.pids_of(part.uuid)}):
        return f"process {', '.join(map(str, pids))}"
    return next((claims[part.uuid] for part in parts if part.uuid in claims), "")


def in_use(gpus: Sequence[VisibleGpu]) -> dict[str, str]:
    """Descriptions of the users of the GPUs' MIG devices, other than this process and its children, by UUID."""
    uuids = [gpu.uuid for gpu in gpus if gpu.parent] + [one.uuid for gpu in gpus for one in gpu.mig_devices]
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    with nvml_open() as nvml:
        found = {uuid: [pid for pid in query(pids_of, nvml, uuid) or () if pid not in ours] for uuid in uuids}
    processes = {uuid: f"process {', '.join(map(str, pids))}" for uuid, pids in found.items() if pids}
    return {uuid: who for uuid, who in claimed_elsewhere().items() if uuid in uuids} | processes


def pids_of(nvml: Any, uuid: str) -> list[int]:
    """The processes that compute on a MIG device. NVML must be open."""
    return pids_on(nvml.nvmlDeviceGetHandleByUUID(uuid))


def claimed_elsewhere() -> Mapping[str, str]:
    """The GPUs and MIG devices that runs of any user hold exclusively, as far as we can read their locks, by UUID."""
    found: dict[str, str] = {}
    for folder in {claims_folder(), *_folders_of_users()}:
        with suppress(OSError):  # another user's, closed to us
            for path in folder.glob("gpu-*"):
                if locked(path):
                    found[path.name.removeprefix("gpu-")] = f"a run that has claimed it in {folder}"
    return found


def _folders_of_users() -> Iterator[Path]:
    """The folders of locks in /tmp that belong to the user in their name."""
    for folder in Path(tempfile.gettempdir()).glob("gmi-drl-claims-*"):
        with suppress(OSError):
            if folder.name == f"gmi-drl-claims-{folder.lstat().st_uid}":
                yield folder


def hides_processes(namespaces: Path = Path("/proc/self/ns")) -> bool:
    """Whether NVML may not list all processes on a GPU here, as in a container with its own PID namespace."""
    try:
        return os.stat(namespaces / "pid").st_ino != FIRST_PID_NAMESPACE
    except OSError:
        return True
