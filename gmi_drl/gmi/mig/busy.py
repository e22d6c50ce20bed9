"""Who uses MIG devices: processes, and runs of whichever user that have claimed them."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from gmi_drl.gmi.claims import claims_folder, locked
from gmi_drl.gmi.inventory import VisibleGpu, nvml_open
from gmi_drl.gmi.inventory.nvml import pids_on, told
from gmi_drl.gmi.mig.driver import MigDriver
from gmi_drl.gmi.mig.state import ComputeInstance, MigState

FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""Number of the host's namespace of processes (PROC_PID_INIT_INO in Linux's include/linux/proc_ns.h)."""


NODES = "see /dev/nvidia-caps, of which a container has what was there when it started"
"""What a process needs to open MIG devices."""


def users(driver: MigDriver, state: MigState) -> dict[int, str]:
    """Who uses the GPU instances of a GPU, by their ids; those in use only."""
    found = {instance.id: users_of(driver, instance.compute) for instance in state.instances}
    return {instance_id: who for instance_id, who in found.items() if who}


def users_of(driver: MigDriver, parts: Sequence[ComputeInstance]) -> str:
    """Who uses any of some compute instances; empty if nobody does."""
    if not all(part.uuid for part in parts):
        return f"whoever may open it: this process may not ({NODES})"
    claims = claimed_elsewhere()
    if pids := sorted({pid for part in parts for pid in driver.pids_of(part.uuid)}):
        return f"process {', '.join(map(str, pids))}"
    return next((claims[part.uuid] for part in parts if part.uuid in claims), "")


def in_use(gpus: Sequence[VisibleGpu]) -> dict[str, str]:
    """Who uses the MIG devices of GPUs, beside this process and its GMIs, as far as a user can know; by UUID."""
    uuids = [gpu.uuid for gpu in gpus if gpu.parent] + [one.uuid for gpu in gpus for one in gpu.mig_devices]
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    with nvml_open() as nvml:
        found = {uuid: [pid for pid in told(pids_of, nvml, uuid) or () if pid not in ours] for uuid in uuids}
    processes = {uuid: f"process {', '.join(map(str, pids))}" for uuid, pids in found.items() if pids}
    return {uuid: who for uuid, who in claimed_elsewhere().items() if uuid in uuids} | processes


def pids_of(nvml: Any, uuid: str) -> list[int]:
    """The processes that compute on a MIG device, with NVML open."""
    return pids_on(nvml.nvmlDeviceGetHandleByUUID(uuid))


def claimed_elsewhere() -> Mapping[str, str]:
    """GPUs and MIG devices that runs of any user hold alone whose locks we can see, and where, by UUID."""
    found: dict[str, str] = {}
    for folder in {claims_folder(), *_folders_of_users()}:
        with suppress(OSError):  # of another user, who lets nobody in
            for path in folder.glob("gpu-*"):
                if locked(path):
                    found[path.name.removeprefix("gpu-")] = f"a run that has claimed it in {folder}"
    return found


def _folders_of_users() -> Iterator[Path]:
    """Those that their users have made, as their names say."""
    for folder in Path(tempfile.gettempdir()).glob("gmi-drl-claims-*"):
        with suppress(OSError):
            if folder.name == f"gmi-drl-claims-{folder.lstat().st_uid}":
                yield folder


def hides_processes(namespaces: Path = Path("/proc/self/ns")) -> bool:
    """Whether processes may use a GPU that NVML does not list here, as in a container with pids of its own."""
    try:
        return os.stat(namespaces / "pid").st_ino != FIRST_PID_NAMESPACE
    except OSError:
        return True
