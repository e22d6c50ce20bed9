"""Disjoint parts of a GPU's SMs within one process: green contexts, each with a stream.

See CUDA Driver API, "Green Contexts" (12.4 or newer). One call splits the SMs, because two calls would give overlapping
parts. Work that is launched on a part's stream runs on its SMs. A graph keeps the SMs of the stream on which it was
captured, wherever it is launched, so simulators must be made on their streams, too.
"""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gmi_drl.errors import MachineError

ALIGNED = 8
"""Parts are multiples of this number of SMs on Hopper and newer; older GPUs allow smaller multiples, too."""


@dataclass(frozen=True)
class Part:
    """A number of SMs with a stream. Its context lives as long as the process."""

    sms: int
    stream: int


def missing() -> str | None:
    """What is missing to make parts, apart from a GPU; None if nothing is."""
    try:
        version("cuda-bindings")
    except PackageNotFoundError:
        return "it needs cuda.bindings: pip install cuda-bindings"
    return None


@cache
def split(count: int) -> tuple[Part, ...]:
    """Split the SMs of the first GPU into `count` equal parts, the same ones in every call. The rest stays idle.

    Raises:
        MachineError: if GPU or driver do not support it.
    """
    import torch
    from cuda.bindings import driver

    torch.ones(1, device="cuda")  # makes the primary context, whose memory all share
    device = _checked(driver.cuDeviceGet(0))
    whole = _checked(driver.cuDeviceGetDevResource(device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
    each = whole.sm.smCount // count // ALIGNED * ALIGNED
    parts, found, _ = _checked(driver.cuDevSmResourceSplitByCount(count, whole, 0, each))
    if found != count:
        raise MachineError(f"the driver gives {found} parts of {each} SMs of {whole.sm.smCount}, not {count}")
    return tuple(Part(int(part.sm.smCount), _stream(driver, device, part)) for part in parts)


def _stream(driver: Any, device: Any, part: Any) -> int:
    described = _checked(driver.cuDevResourceGenerateDesc([part], 1))
    flag = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
    context = _checked(driver.cuGreenCtxCreate(described, device, flag))
    return int(_checked(driver.cuGreenCtxStreamCreate(context, driver.CUstream_flags.CU_STREAM_NON_BLOCKING, 0)))


def _checked(result: Any) -> Any:
    """The values that a function of the driver returned with its code. Raises MachineError for an error code."""
    code, *values = result
    if int(code) != 0:
        raise MachineError(f"green contexts: the driver returned {code!r}")
    return values[0] if len(values) == 1 else tuple(values)
