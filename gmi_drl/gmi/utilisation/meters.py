"""Meters of one GPU or MIG instance. Each reads means over the time since its last reading.

Sources: NVML API Reference Guide, "GPM Functions" (Hopper or newer; its counters are refreshed every 100 ms) and
"Device Queries".
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import pynvml

Meter = Callable[[], dict[str, float]]
"""Returns numbers by name (see `readings.Usage`), or raises `pynvml.NVMLError`."""

GPM = {
    "sm_util": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "sm_occupancy": pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    "dram_bandwidth": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}
MILLI = 1000.0  # NVML counts millijoules and milliwatts


def meters_of(watched: Mapping[str, int], life: ExitStack) -> list[tuple[str, Meter]]:
    """The meters that NVML supports here, each with the name of its device.

    Args:
        watched: See `watched_gpus`.
        life: Frees the meters' memory when it ends. NVML must be open until then.
    """
    activity: dict[str, list[Meter]] = {}  # compute instances of one GPU instance share its counters
    power: dict[str, list[Meter]] = {}
    for uuid, index in watched.items():
        with suppress(pynvml.NVMLError):
            gpu, instance = located(uuid)
            whole = f"gpu{index}"
            if whole not in power:
                power[whole] = _first(partial(EnergyMeter, gpu), partial(_power, gpu))
            device = whole if instance is None else f"{whole}/gi{instance}"
            if device not in activity:
                activity[device] = _first(partial(GpmMeter, gpu, instance, life), partial(_busy, gpu, instance))
    return [(device, meter) for part in (activity, power) for device, meters in part.items() for meter in meters]


def located(uuid: str) -> tuple[Any, int | None]:
    """The handle of a GPU, and the id of a MIG device's GPU instance on it; None for a whole GPU."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    if not uuid.startswith("MIG-"):
        return handle, None
    gpu = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    return gpu, int(pynvml.nvmlDeviceGetGpuInstanceId(handle))


def _first(*makers: Callable[[], Meter]) -> list[Meter]:
    """The first meter that NVML supports here, in a list; an empty list if it supports none."""
    for make in makers:
        with suppress(pynvml.NVMLError):
            return [make()]
    return []


class GpmMeter:
    """GPU performance monitoring: means of the counters of a GPU or of one of its MIG instances.

    Raises:
        pynvml.NVMLError: if the GPU has no such counters, or this user may not read them.
    """

    def __init__(self, gpu: Any, gpu_instance: int | None, life: ExitStack) -> None:
        if not pynvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        self._gpu, self._instance = gpu, gpu_instance
        self._before, self._now = self._allocated(life), self._allocated(life)
        self._take(self._before)
        self._has_before = True

    def __call__(self) -> dict[str, float]:
        """Means since the last sample; empty if that one failed."""
        had, self._has_before = self._has_before, False
        self._take(self._now)
        self._before, self._now, self._has_before = self._now, self._before, True
        return self._between(self._now, self._before) if had else {}

    @staticmethod
    def _allocated(life: ExitStack) -> Any:
        sample = pynvml.nvmlGpmSampleAlloc()
        life.callback(_free, sample)
        return sample

    def _take(self, sample: Any) -> None:
        if self._instance is None:
            pynvml.nvmlGpmSampleGet(self._gpu, sample)
        else:
            pynvml.nvmlGpmMigSampleGet(self._gpu, self._instance, sample)

    @staticmethod
    def _between(before: Any, now: Any) -> dict[str, float]:
        query = pynvml.c_nvmlGpmMetricsGet_t()
        query.version, query.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(GPM)
        query.sample1, query.sample2 = before, now
        for place, metric in enumerate(GPM.values()):
            query.metrics[place].metricId = metric
        pynvml.nvmlGpmMetricsGet(query)
        values = zip(GPM, query.metrics, strict=False)  # the array has room for all metrics of NVML
        return {name: float(one.value) for name, one in values if one.nvmlReturn == pynvml.NVML_SUCCESS}


class EnergyMeter:
    """`power_w`, from the energy that a GPU has used since its driver was loaded (Volta or newer).

    Raises:
        pynvml.NVMLError: if NVML does not report it.
    """

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu
        self._joules, self._at_s = self._now()

    def __call__(self) -> dict[str, float]:
        """The mean power since the last call."""
        (before, before_s), (self._joules, self._at_s) = (self._joules, self._at_s), self._now()
        has_grown = self._joules >= before and self._at_s > before_s  # a driver that was reloaded counts from 0
        return {"power_w": (self._joules - before) / (self._at_s - before_s)} if has_grown else {}

    def _now(self) -> tuple[float, float]:
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(self._gpu) / MILLI, time.monotonic()


def _power(gpu: Any) -> Meter:
    """`power_w` as NVML reports it: a mean over a second or an instantaneous value, depending on the GPU."""
    return _tried(lambda: {"power_w": pynvml.nvmlDeviceGetPowerUsage(gpu) / MILLI})


def _busy(gpu: Any, gpu_instance: int | None) -> Meter:
    """`gpu_busy`: percent of the last 1/6 to 1 s in which any kernel ran. Not supported in MIG mode."""
    if gpu_instance is not None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return _tried(lambda: {"gpu_busy": float(pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu)})


def _tried(meter: Meter) -> Meter:
    """The meter, after a first reading that shows that NVML supports it."""
    meter()
    return meter


def _free(sample: Any) -> None:
    with suppress(pynvml.NVMLError):
        pynvml.nvmlGpmSampleFree(sample)
