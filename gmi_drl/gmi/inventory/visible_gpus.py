"""The GPUs that this process may use, after CUDA_VISIBLE_DEVICES."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gmi_drl.errors import MachineError
from gmi_drl.gmi.inventory.cuda_visible_devices import VARIABLE, choose
from gmi_drl.gmi.inventory.gpu import VisibleGpu, as_gpu, describe
from gmi_drl.gmi.inventory.nvml import WITHOUT, Driver, driver_of, nvml_open


class VisibleGpus(NamedTuple):
    """The GPUs that may be used, in CUDA's order, at one moment.

    `note` says which entry of CUDA_VISIBLE_DEVICES is invalid, if one is; `driver` is None if there is no driver.
    """

    gpus: tuple[VisibleGpu, ...] = ()
    note: str = ""
    driver: Driver | None = None


def visible_gpus() -> list[VisibleGpu]:
    """The GPUs that this process may use, in CUDA's order, in their present state; none if there is no driver.

    MIG devices that CUDA_VISIBLE_DEVICES names count as GPUs. CUDA shows a process only the first of them; this lists
    all, since each GMI is a process of its own that sees one.

    Raises:
        MachineError: if the driver does not answer, or a GPU that may be used is lost.
        UsageError: if CUDA_VISIBLE_DEVICES names a device twice.
    """
    return list(visible_gpus_report().gpus)


def visible_gpus_report() -> VisibleGpus:
    """As `visible_gpus`, with the driver and a note on CUDA_VISIBLE_DEVICES."""
    with gpus_open() as (_, seen):
        return seen


@contextmanager
def gpus_open() -> Iterator[tuple[Any, VisibleGpus]]:
    """As `visible_gpus_report`, with NVML open for further queries; None for NVML if there is no driver or no GPU."""
    text = os.environ.get(VARIABLE)
    if text is not None and text.strip() in ("", "-1"):  # who wants no GPU needs no driver
        yield None, VisibleGpus()
        return
    with nvml_open() as nvml:
        yield nvml, VisibleGpus() if nvml is None else _seen(nvml, text)


class _Unusable(NamedTuple):
    """A GPU that NVML cannot describe: a name for messages, and NVML's error."""

    name: str
    reason: str


def _seen(nvml: Any, text: str | None) -> VisibleGpus:
    driver = driver_of(nvml)
    here = _gpus_here(nvml, driver.version)
    known = {gpu.uuid: gpu for gpu in here if isinstance(gpu, VisibleGpu)}
    broken = {gpu.name: gpu.reason for gpu in here if isinstance(gpu, _Unusable)}
    names: dict[str, str] = {}
    for gpu in list(known.values()):
        for device in gpu.mig_devices:
            known[device.uuid] = as_gpu(device, gpu)
            names |= {device.uuid: device.uuid, device.legacy_name: device.uuid}
    order = [gpu.uuid if isinstance(gpu, VisibleGpu) else gpu.name for gpu in here]
    choice = choose(text, order, names)
    for name in choice.names:
        if name in broken:
            others = ",".join(uuid for uuid in order if uuid in known)
            remedy = f"leave it out: {VARIABLE}={others}" if others else WITHOUT
            raise MachineError(f"{name} does not answer (NVML: {broken[name]}): reboot, or {remedy}")
    return VisibleGpus(tuple(known[name] for name in choice.names), choice.note, driver)


def _gpus_here(nvml: Any, version: str) -> list[VisibleGpu | _Unusable]:
    """The GPUs that this process may open, in NVML's order.

    A container with some of the host's GPUs may not open the others; CUDA does not count them either.
    """
    here: list[VisibleGpu | _Unusable] = []
    for number in range(nvml.nvmlDeviceGetCount()):
        try:
            here.append(describe(nvml, nvml.nvmlDeviceGetHandleByIndex(number), number, version))
        except nvml.NVMLError_NoPermission:
            continue
        except nvml.NVMLError as error:
            here.append(_Unusable(f"GPU {number}", str(error)))
    return here
