"""Reads, makes and destroys GPU instances and compute instances through NVML.

Reference: NVIDIA's NVML API Reference, "Multi Instance GPU Management". Even reading GPU instances needs root; every
user may read MIG devices, as `gmi.inventory` does.
"""

from collections.abc import Callable
from ctypes import byref, c_uint
from functools import partial
from typing import Any

from gmi_drl.errors import MachineError
from gmi_drl.gmi.inventory.nvml import pids_on
from gmi_drl.gmi.mig.state import ComputeInstance, GpuInstance, MigState


def in_words(error: Exception) -> str:
    """An error of NVML as a message: what it means for MIG, and the remedy."""
    import pynvml

    remedies = {
        pynvml.NVML_ERROR_NO_PERMISSION: "it needs root, or the right to /proc/driver/nvidia/capabilities/mig/config",
        pynvml.NVML_ERROR_IN_USE: "it is in use by a process, perhaps a monitor such as dcgm: end that",
        pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: "there is no room beside the instances that are there",
        pynvml.NVML_ERROR_RESET_REQUIRED: "the GPU must be reset first (nvidia-smi --gpu-reset)",
        pynvml.NVML_ERROR_NOT_SUPPORTED: "this GPU or its driver cannot do it",
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "the driver is too old for it",
    }
    return f"{error}: {remedies.get(error.value, 'NVML gives no reason')}" if hasattr(error, "value") else str(error)


def is_passing(error: Exception) -> bool:
    """Whether NVML may succeed if the same is tried again in a moment."""
    import pynvml

    final = (
        pynvml.NVMLError_NoPermission,
        pynvml.NVMLError_InsufficientResources,
        pynvml.NVMLError_NotSupported,
        pynvml.NVMLError_InvalidArgument,
        pynvml.NVMLError_FunctionNotFound,
        pynvml.NVMLError_ResetRequired,
    )
    return not isinstance(error, final)


class MigDriver:
    """MIG of one GPU. NVML must be open; all methods may raise `pynvml.NVMLError`.

    Each method gets new handles, since they become invalid when the mode changes.

    Args:
        gpu: The GPU's UUID.
    """

    def __init__(self, gpu: str) -> None:
        self.gpu = gpu

    def state(self) -> MigState:
        """Read the mode and the instances. A GPU without MIG counts as one in which it is off."""
        import pynvml

        model = str(pynvml.nvmlDeviceGetName(self._handle))
        try:
            enabled, pending = map(bool, pynvml.nvmlDeviceGetMigMode(self._handle))
        except pynvml.NVMLError_NotSupported:
            enabled = pending = False
        instances = self._instances() if enabled else []
        return MigState(self.gpu, model, enabled, pending, tuple(sorted(instances, key=lambda one: one.start)))

    def set_mode(self, *, enabled: bool) -> None:
        """Turn MIG mode on or off. It may take effect only at the next reset: see `MigState.pending`.

        Raises:
            pynvml.NVMLError: also if the mode has not become active, with the reason.
        """
        import pynvml

        status = pynvml.nvmlDeviceSetMigMode(self._handle, int(enabled))
        if status != pynvml.NVML_SUCCESS:
            raise pynvml.NVMLError(status)

    def make(self, profile: str, start: int) -> int:
        """Make a GPU instance without compute instances at a memory slice. Returns its id."""
        import pynvml

        number, kind = self._number(profile), pynvml.c_nvmlGpuInstancePlacement_t
        sizes = _sizes(kind, partial(pynvml.nvmlDeviceGetGpuInstancePossiblePlacements, self._handle, number))
        if start not in sizes:
            raise MachineError(f"{profile} cannot begin at memory slice {start} of {self.gpu}, only at {list(sizes)}")
        place = kind(start=start, size=sizes[start])
        instance = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(self._handle, number, byref(place))
        return int(pynvml.nvmlGpuInstanceGetInfo(instance).id)

    def make_part(self, instance_id: int, profile: str, start: int) -> None:
        """Make a compute instance in a GPU instance, at a compute slice."""
        import pynvml

        instance = self._instance(instance_id)
        numbers = {name: number for number, (name, _) in self._part_profiles(instance).items()}
        if profile not in numbers:
            raise MachineError(f"the driver has no compute instance {profile!r} there, only {', '.join(numbers)}")
        kind, ask = pynvml.c_nvmlComputeInstancePlacement_t, pynvml.nvmlGpuInstanceGetComputeInstancePossiblePlacements
        sizes = _sizes(kind, partial(ask, instance, numbers[profile]))
        if start not in sizes:
            raise MachineError(f"{profile} cannot begin at compute slice {start} of {self.gpu}, only at {list(sizes)}")
        place = kind(start=start, size=sizes[start])
        pynvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement(instance, numbers[profile], byref(place))

    def destroy(self, instance_id: int) -> None:
        """Destroy a GPU instance, which must have no compute instances."""
        import pynvml

        pynvml.nvmlGpuInstanceDestroy(self._instance(instance_id))

    def destroy_part(self, instance_id: int, part_id: int) -> None:
        """Destroy a compute instance."""
        import pynvml

        part = pynvml.nvmlGpuInstanceGetComputeInstanceById(self._instance(instance_id), part_id)
        pynvml.nvmlComputeInstanceDestroy(part)

    def pids(self) -> list[int]:
        """The processes that compute on the GPU itself, without those of other containers."""
        return pids_on(self._handle)

    def pids_of(self, uuid: str) -> list[int]:
        """The processes that compute on a MIG device of this GPU, without those of other containers."""
        import pynvml

        return pids_on(pynvml.nvmlDeviceGetHandleByUUID(uuid))

    @property
    def _handle(self) -> Any:
        import pynvml

        return pynvml.nvmlDeviceGetHandleByUUID(self.gpu)

    def _instance(self, instance_id: int) -> Any:
        import pynvml

        return pynvml.nvmlDeviceGetGpuInstanceById(self._handle, instance_id)

    def _instances(self) -> list[GpuInstance]:
        import pynvml

        parts, found = self._parts(), []
        for number, (name, most) in self._profiles().items():
            handles, count = (pynvml.c_nvmlGpuInstance_t * most)(), c_uint(most)
            pynvml.nvmlDeviceGetGpuInstances(self._handle, number, handles, byref(count))
            for handle in handles[: count.value]:
                info = pynvml.nvmlGpuInstanceGetInfo(handle)
                inside = self._compute_instances(handle, parts.get(info.id, {}))
                found.append(GpuInstance(info.id, name, info.placement.start, info.placement.size, tuple(inside)))
        return found

    def _parts(self) -> dict[int, dict[int, str]]:
        """UUIDs of MIG devices, by the ids of their GPU instances and compute instances."""
        import pynvml

        found: dict[int, dict[int, str]] = {}
        for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(self._handle)):
            try:
                device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, index)
            except (
                pynvml.NVMLError_NotFound,
                pynvml.NVMLError_NoPermission,
            ):  # none, or closed to this process
                continue
            instance, part = pynvml.nvmlDeviceGetGpuInstanceId(device), pynvml.nvmlDeviceGetComputeInstanceId(device)
            found.setdefault(instance, {})[part] = str(pynvml.nvmlDeviceGetUUID(device))
        return found

    def _compute_instances(self, instance: Any, uuids: dict[int, str]) -> list[ComputeInstance]:
        import pynvml

        found = []
        for number, (name, most) in self._part_profiles(instance).items():
            handles, count = (pynvml.c_nvmlComputeInstance_t * most)(), c_uint(most)
            pynvml.nvmlGpuInstanceGetComputeInstances(instance, number, handles, byref(count))
            for handle in handles[: count.value]:
                info = pynvml.nvmlComputeInstanceGetInfo(handle)
                found.append(ComputeInstance(info.id, name, info.placement.start, uuids.get(info.id, "")))
        return sorted(found, key=lambda part: part.id)

    def _number(self, profile: str) -> int:
        """The id of a profile of GPU instances, by its name."""
        numbers = {name: number for number, (name, _) in self._profiles().items()}
        if profile not in numbers:
            raise MachineError(f"the driver has no MIG profile {profile!r} for {self.gpu}, only {', '.join(numbers)}")
        return numbers[profile]

    def _profiles(self) -> dict[int, tuple[str, int]]:
        """The name and the maximal number of GPU instances of each profile, by the profile's id."""
        import pynvml

        found = {}
        for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            try:
                info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(self._handle, number)
            except (
                pynvml.NVMLError_NotSupported,
                pynvml.NVMLError_InvalidArgument,
            ):  # not of this GPU or driver
                continue
            found[int(info.id)] = (_name(info), int(info.instanceCount))
        return found

    def _part_profiles(self, instance: Any) -> dict[int, tuple[str, int]]:
        """The name and the maximal number of compute instances of each profile, by the profile's id."""
        import pynvml

        found = {}
        for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            try:
                info = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
                    instance, number, pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
                )
            except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
                continue
            found[int(info.id)] = (_name(info), int(info.instanceCount))
        return found


def _sizes(kind: Any, ask: Callable[..., object]) -> dict[int, int]:
    """The number of slices of a profile by its possible starts, from one of NVML's `...PossiblePlacements`.

    Args:
        kind: The struct for a placement.
        ask: The function of NVML, called with an array (None at first) and its length.
    """
    count = c_uint(0)
    ask(None, byref(count))
    places = (kind * count.value)()
    ask(places, byref(count))
    return {int(place.start): int(place.size) for place in places}


def _name(info: Any) -> str:
    """The name of a profile, without NVML's prefix: NVML writes "MIG 3g.20gb"."""
    return str(info.name).removeprefix("MIG ")
