"""Assigns existing MIG devices to the GMIs of a layout."""

from collections.abc import Mapping, Sequence

from gmi_drl.gmi.inventory import MigDevice, VisibleGpu
from gmi_drl.layout.layout import GMI, Device, Layout

Assignment = dict[int, str]
"""UUIDs of MIG devices, by the ids of their GMIs."""


def assign(
    layout: Layout, gpus: Sequence[VisibleGpu], in_use: Mapping[str, str], *, parts: bool
) -> tuple[Assignment, list[str]]:
    """Choose a MIG device for each GMI: idle ones first, of these the largest.

    Args:
        layout: The layout of the GMIs. A GMI with a `mig_profile` gets an instance of that profile, another any.
        gpus: The GPUs that this process may use, in CUDA's order. One that is a MIG device itself can only be that.
        in_use: Descriptions of the users of MIG devices, by UUID.
        parts: Choose compute instances of one GPU instance (`mig-ci`) instead of whole GPU instances.

    Returns:
        The devices, and the reasons for which some GMIs have none.
    """
    given, reasons = Assignment(), list[str]()
    for device in layout.devices:
        if device.kind == "gpu" and device.index < len(gpus):
            found, reason = _give(device, gpus[device.index], in_use, parts)
            given |= found
            reasons += [reason] if reason else []
    return given, reasons


def no_gpus(layout: Layout) -> list[str]:
    """The reasons for which devices of a layout cannot be cut by MIG: they are no GPUs."""
    return [
        f"{device.kind} {device.index} is no GPU, and MIG cuts GPUs: take another --backend"
        for device in layout.devices
        if device.kind != "gpu"
    ]


def _give(device: Device, gpu: VisibleGpu, in_use: Mapping[str, str], parts: bool) -> tuple[Assignment, str]:
    if gpu.mig is None and not gpu.parent:
        return {}, ""  # the backend's `obstacle` says that it has no MIG
    groups = _groups(gpu, parts)
    idle_first = [sorted(group, key=lambda one: (one.uuid in in_use, _smallness(one))) for group in groups]
    found = [_match(device.gmis, group) for group in idle_first] or [(Assignment(), list(device.gmis))]
    best, missing = min(found, key=lambda one: (len(one[1]), sum(uuid in in_use for uuid in one[0].values())))
    busy = [f"{uuid} is in use by {in_use[uuid]}" for uuid in best.values() if uuid in in_use]
    if busy:
        return {}, f"GPU {device.index} ({gpu.model}): {'; '.join(busy)}: wait for it"
    if missing:
        return {}, _lack(device, gpu, missing, [one for group in groups for one in group])
    return best, ""


def _groups(gpu: VisibleGpu, parts: bool) -> list[list[MigDevice]]:
    """The groups of MIG devices of which one must hold all GMIs of a GPU: each GPU instance, or all whole ones."""
    if gpu.parent:
        return [[itself(gpu)]]
    if not parts:
        return [[one for one in gpu.mig_devices if "c." not in one.profile]]
    instances = dict.fromkeys(one.gpu_instance for one in gpu.mig_devices)
    return [[one for one in gpu.mig_devices if one.gpu_instance == number] for number in instances]


def itself(gpu: VisibleGpu) -> MigDevice:
    """The MIG device that CUDA_VISIBLE_DEVICES has made a GPU."""
    profile = gpu.model.partition(" MIG ")[2]
    numbers = gpu.gpu_instance or 0, gpu.compute_instance or 0
    return MigDevice(gpu.uuid, profile, *numbers, gpu.sms, gpu.memory_gib, gpu.used_bytes, "")


def _match(gmis: Sequence[GMI], devices: Sequence[MigDevice]) -> tuple[Assignment, list[GMI]]:
    """Match GMIs and devices, GMIs with a profile first. Returns the matches and the GMIs that get none."""
    left, given, missing = list(devices), Assignment(), list[GMI]()
    for gmi in sorted(gmis, key=lambda gmi: gmi.mig_profile is None):
        found = next((one for one in left if gmi.mig_profile in (None, one.profile)), None)
        if found is None:
            missing.append(gmi)
        else:
            left.remove(found)
            given[gmi.id] = found.uuid
    return given, missing


def _lack(device: Device, gpu: VisibleGpu, missing: Sequence[GMI], there: Sequence[MigDevice]) -> str:
    wanted = ", ".join(f"GMI {gmi.id}" + (f" ({gmi.mig_profile})" if gmi.mig_profile else "") for gmi in missing)
    if gpu.parent:
        only = f"CUDA_VISIBLE_DEVICES shows this MIG device ({there[0].profile}) alone"
        return f"GPU {device.index} ({gpu.model}) has no MIG instance for {wanted}: {only}"
    has = ", ".join(one.profile for one in there) or ("none" if gpu.mig else "none, as MIG mode is off")
    return (
        f"GPU {device.index} ({gpu.model}) has no MIG instance for {wanted}, it has {has}: ask for other GMIs, or let "
        "`--apply-mig` make them (as root)"
    )


def _smallness(device: MigDevice) -> tuple[int, float]:
    return -(device.sms or 0), -device.memory_gib
