"""What NVML reports about one GPU and its MIG devices."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gmi_drl.gmi.inventory.nvml import query
from gmi_drl.hardware.gpus import find_gpu
from gmi_drl.units import GIB

COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive process"}
"""How many processes may compute on a GPU: NVML_COMPUTEMODE_*."""

CORES_PER_SM = {"sm_70": 64, "sm_75": 64, "sm_80": 64}
"""Float32 cores of an SM, if they are not 128: CUDA Programming Guide, "Arithmetic Instructions"."""


class MigDevice(NamedTuple):
    """A MIG device that exists: a compute instance of a GPU instance, which a process sees as its GPU.

    `profile` is the one in its name: "3g.71gb", or "1c.3g.71gb" for a part of a GPU instance. `legacy_name` is its name
    in drivers before 470.
    """

    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int
    sms: int | None
    memory_gib: float
    used_bytes: int
    legacy_name: str


class VisibleGpu(NamedTuple):
    """A GPU that this process may use, or a MIG device that CUDA_VISIBLE_DEVICES names.

    `memory_gib` is 0 if unknown; other fields are None or empty if NVML does not report them. `used_bytes` counts the
    memory of all processes. `number` is NVML's index among all GPUs. `mig` is whether MIG mode is on, None without MIG;
    `mig_pending` is the mode after the next reset. `mig_devices` are the existing ones. For a MIG device `parent` is
    the UUID of its GPU, and `gpu_instance` and `compute_instance` are its ids. `cpus` are the CPUs near the GPU.
    """

    model: str
    uuid: str
    memory_gib: float
    used_bytes: int
    driver: str
    number: int = 0
    architecture: str = ""
    sms: int | None = None
    compute_mode: str = ""
    mig: bool | None = None
    mig_pending: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    parent: str = ""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    pci: str = ""
    cpus: tuple[int, ...] = ()


def describe(nvml: Any, handle: Any, number: int, driver: str) -> VisibleGpu:
    """Read everything about a GPU from NVML.

    Raises:
        NVMLError: if the GPU has no name or UUID, or is lost.
    """
    model, uuid = str(nvml.nvmlDeviceGetName(handle)), str(nvml.nvmlDeviceGetUUID(handle))
    capability = query(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    architecture = "sm_{}{}".format(*capability) if capability else ""
    current, pending = query(nvml.nvmlDeviceGetMigMode, handle) or (None, None)
    devices = _mig_devices(nvml, handle, uuid) if current else ()
    memory_gib, used_bytes = _memory(nvml, handle, model, devices)
    pci = query(nvml.nvmlDeviceGetPciInfo, handle)
    return VisibleGpu(
        model=model,
        uuid=uuid,
        memory_gib=memory_gib,
        used_bytes=used_bytes,
        driver=driver,
        number=number,
        architecture=architecture,
        sms=_sms(query(nvml.nvmlDeviceGetNumGpuCores, handle), architecture, model),
        compute_mode=COMPUTE_MODES.get(_code(query(nvml.nvmlDeviceGetComputeMode, handle)), ""),
        mig=None if current is None else current == nvml.NVML_DEVICE_MIG_ENABLE,
        mig_pending=None if pending is None else pending == nvml.NVML_DEVICE_MIG_ENABLE,
        mig_devices=devices,
        pci=_text(pci.busId) if pci else "",
        cpus=_cpus(nvml, handle),
    )


def as_gpu(device: MigDevice, gpu: VisibleGpu) -> VisibleGpu:
    """A MIG device as a process sees it: as a GPU."""
    return gpu._replace(
        model=f"{gpu.model} MIG {device.profile}",
        uuid=device.uuid,
        memory_gib=device.memory_gib,
        used_bytes=device.used_bytes,
        sms=device.sms,
        mig_devices=(),
        parent=gpu.uuid,
        gpu_instance=device.gpu_instance,
        compute_instance=device.compute_instance,
    )


def _mig_devices(nvml: Any, handle: Any, uuid: str) -> tuple[MigDevice, ...]:
    """The existing MIG devices of a GPU. NVML numbers them without gaps, up to a maximum."""
    devices = []
    for index in range(query(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        device = query(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if device is not None:
            devices.append(_mig_device(nvml, device, uuid))
    return tuple(devices)


def _mig_device(nvml: Any, device: Any, gpu_uuid: str) -> MigDevice:
    attributes = query(nvml.nvmlDeviceGetAttributes_v2, device)
    memory = query(nvml.nvmlDeviceGetMemoryInfo, device)
    instance, part = nvml.nvmlDeviceGetGpuInstanceId(device), nvml.nvmlDeviceGetComputeInstanceId(device)
    total = int(memory.total) if memory else int(attributes.memorySizeMB) * 2**20 if attributes else 0
    return MigDevice(
        uuid=str(nvml.nvmlDeviceGetUUID(device)),
        profile=str(nvml.nvmlDeviceGetName(device)).partition(" MIG ")[2],
        gpu_instance=int(instance),
        compute_instance=int(part),
        sms=int(attributes.multiprocessorCount) if attributes else None,
        memory_gib=round(total / GIB, 1),
        used_bytes=int(memory.used) if memory else 0,
        legacy_name=f"MIG-{gpu_uuid}/{instance}/{part}",
    )


def _memory(nvml: Any, handle: Any, model: str, devices: tuple[MigDevice, ...]) -> tuple[float, int]:
    """Total memory in GiB and bytes in use.

    In MIG mode NVML reports them to root only. For others the total is the catalogue's, and the bytes are the sum over
    GPU instances, each counted once, since its compute instances share its memory.
    """
    if (memory := query(nvml.nvmlDeviceGetMemoryInfo, handle)) is not None:
        return round(int(memory.total) / GIB, 1), int(memory.used)
    known = find_gpu(model)
    used = {device.gpu_instance: device.used_bytes for device in devices}
    return round(known.memory_gib, 1) if known else 0.0, sum(used.values())


def _sms(cores: int | None, architecture: str, model: str) -> int | None:
    if cores and architecture:
        return cores // CORES_PER_SM.get(architecture, 128)
    known = find_gpu(model)
    return known.sms if known else None


def _cpus(nvml: Any, handle: Any) -> tuple[int, ...]:
    """The CPUs near a GPU, from NVML's bit mask in words of 64 bits."""
    words = 16
    ask: Callable[..., Any] = nvml.nvmlDeviceGetCpuAffinity
    mask = query(ask, handle, words) or ()
    return tuple(64 * i + bit for i, word in enumerate(mask) for bit in range(64) if int(word) >> bit & 1)


def _code(value: int | None) -> int:
    return -1 if value is None else int(value)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
