"""NVML, NVIDIA's management library, through nvidia-ml-py. Its errors reach users as sentences, not as numbers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from gmi_drl.errors import MachineError

Fact = TypeVar("Fact")

WITHOUT = "train on cores with CUDA_VISIBLE_DEVICES= (empty)"
"""The remedy for a broken driver."""


class Driver(NamedTuple):
    """NVIDIA's driver: its version and the newest CUDA it supports, e.g. `(13, 0)`; None if it reports none."""

    version: str
    cuda: tuple[int, int] | None


@contextmanager
def nvml_open() -> Iterator[Any]:
    """Open NVML for the time of a `with` block. Yields nvidia-ml-py's module; None if there is no driver.

    Use one block for related queries: without the persistence daemon each opening may take a second.

    Raises:
        MachineError: if the driver does not answer, or a query within the block fails.
    """
    import pynvml

    if not _opened(pynvml):
        yield None
        return
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise MachineError(_broken(error)) from error
    finally:
        with suppress(pynvml.NVMLError):  # all queries are done
            pynvml.nvmlShutdown()


def _opened(nvml: Any) -> bool:
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
        return False
    except nvml.NVMLError as error:
        raise MachineError(_broken(error)) from error
    return True


def query(ask: Callable[..., Fact], *about: Any) -> Fact | None:
    """Call a query of NVML; None if it is not supported here, or not allowed to this user.

    Raises:
        NVMLError: if the GPU is lost: then no other answer about it is useful.
    """
    import pynvml

    try:
        return ask(*about)
    except pynvml.NVMLError_GpuIsLost:
        raise
    except pynvml.NVMLError:
        return None


def pids_on(handle: Any) -> list[int]:
    """The processes that compute on a GPU or MIG device, without those of other containers. NVML must be open.

    This calls version 3 explicitly: nvidia-ml-py's function without a version raises other errors than NVMLError if the
    driver has only older versions.

    Raises:
        NVMLError: if NVML does not list them.
    """
    import pynvml

    return sorted(int(process.pid) for process in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle))


def driver() -> Driver | None:
    """The driver of this machine; None if there is none.

    Raises:
        MachineError: if it does not answer.
    """
    with nvml_open() as nvml:
        return None if nvml is None else driver_of(nvml)


def driver_of(nvml: Any) -> Driver:
    """As `driver`, with NVML open already. NVML encodes CUDA 13.1 as 13010."""
    cuda = query(nvml.nvmlSystemGetCudaDriverVersion_v2)
    return Driver(str(nvml.nvmlSystemGetDriverVersion()), None if cuda is None else (cuda // 1000, cuda % 1000 // 10))


def _broken(error: Exception) -> str:
    import pynvml

    if isinstance(error, pynvml.NVMLError_LibRmVersionMismatch):
        remedy = "the driver was updated while it was in use: reboot, or reload its kernel module"
    elif isinstance(error, pynvml.NVMLError_NoPermission):
        remedy = "this user may not open /dev/nvidiactl: see its group and permissions"
    elif isinstance(error, pynvml.NVMLError_GpuIsLost):
        remedy = "a GPU has fallen off the bus: reboot, or leave it out of CUDA_VISIBLE_DEVICES"
    elif isinstance(error, pynvml.NVMLError_FunctionNotFound):
        remedy = "it is too old for what is asked of it: update it"
    else:
        remedy = "see whether nvidia-smi works"
    return f"NVIDIA's driver does not answer (NVML: {error}): {remedy}, or {WITHOUT}"
