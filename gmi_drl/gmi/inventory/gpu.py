"""What NVML tells of one GPU, and of the MIG devices that it is cut into."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gmi_drl.gmi.inventory.nvml import told
from gmi_drl.hardware.gpus import find_gpu
from gmi_drl.units import GIB

COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive process"}
"""How many processes may compute on a GPU: NVML_COMPUTEMODE_*."""

CORES_PER_SM = {"sm_70": 64, "sm_75": 64, "sm_80": 64}
"""Where it is not 128: CUDA Programming Guide, "Arithmetic Instructions", float32 results per clock."""


class MigDevice(NamedTuple):
    """A MIG device that exists: a compute instance of a GPU instance, which a process sees as its GPU.

    `profile` is as in its name, "3g.71gb", or "1c.3g.71gb" for a part of a GPU instance. `legacy_name` is what drivers
    before 470 call it.
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
    """A GPU that this process may use, and the memory of it that is in use by whomever.

    `memory_gib` is 0 where nobody knows it, and other facts are None or empty where NVML tells none. `number` is NVML's
    index, among all GPUs. `mig` is whether MIG mode is on, None where there is no MIG; `mig_pending` what it will be
    after a reset. `mig_devices` are those that exist on it. A MIG device that was chosen by CUDA_VISIBLE_DEVICES is a
    GPU here, too: then `parent` is the UUID of the GPU that it lies on, and `gpu_instance` and `compute_instance` are
    its own. `cpus` are the CPUs near it.
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
    """All that NVML tells of a GPU.

    Raises:
        NVMLError: if it has no name or UUID, or is lost.
    """
    model, uuid = str(nvml.nvmlDeviceGetName(handle)), str(nvml.nvmlDeviceGetUUID(handle))
    capability = told(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    architecture = "sm_{}{}".format(*capability) if capability else ""
    current, pending = told(nvml.nvmlDeviceGetMigMode, handle) or (None, None)
    devices = _mig_devices(nvml, handle, uuid) if current else ()
    memory_gib, used_bytes = _memory(nvml, handle, model, devices)
    pci = told(nvml.nvmlDeviceGetPciInfo, handle)
    return VisibleGpu(
        model=model,
        uuid=uuid,
        memory_gib=memory_gib,
        used_bytes=used_bytes,
        driver=driver,
        number=number,
        architecture=architecture,
        sms=_sms(told(nvml.nvmlDeviceGetNumGpuCores, handle), architecture, model),
        compute_mode=COMPUTE_MODES.get(_code(told(nvml.nvmlDeviceGetComputeMode, handle)), ""),
        mig=None if current is None else current == nvml.NVML_DEVICE_MIG_ENABLE,
        mig_pending=None if pending is None else pending == nvml.NVML_DEVICE_MIG_ENABLE,
        mig_devices=devices,
        pci=_text(pci.busId) if pci else "",
        cpus=_cpus(nvml, handle),
    )


def as_gpu(device: MigDevice, gpu: VisibleGpu) -> VisibleGpu:
    """A MIG device of a GPU, as the GPU that a process sees."""
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
    """The MIG devices that exist on a GPU. NVML numbers them without gaps, up to the most that there may be."""
    devices = []
    for index in range(told(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        device = told(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if device is not None:
            devices.append(_mig_device(nvml, device, uuid))
    return tuple(devices)


def _mig_device(nvml: Any, device: Any, gpu_uuid: str) -> MigDevice:
    attributes = told(nvml.nvmlDeviceGetAttributes_v2, device)
    memory = told(nvml.nvmlDeviceGetMemoryInfo, device)
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
    """GiB in all and bytes in use. In MIG mode only root is told: then the catalogue's, and what instances have in use.

    The compute instances of one GPU instance have its memory in common.
    """
    if (memory := told(nvml.nvmlDeviceGetMemoryInfo, handle)) is not None:
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
    """The CPUs near a GPU: one bit for each in words of 64."""
    words = 16
    ask: Callable[..., Any] = nvml.nvmlDeviceGetCpuAffinity
    mask = told(ask, handle, words) or ()
    return tuple(64 * i + bit for i, word in enumerate(mask) for bit in range(64) if int(word) >> bit & 1)


def _code(value: int | None) -> int:
    return -1 if value is None else int(value)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
