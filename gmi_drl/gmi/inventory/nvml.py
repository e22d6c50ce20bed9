"""NVML, NVIDIA's management library, through nvidia-ml-py. No error of it reaches a user as a number."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from gmi_drl.errors import MachineError

Fact = TypeVar("Fact")

WITHOUT = "train on cores with CUDA_VISIBLE_DEVICES= (empty)"
"""What anybody may do whose driver is broken."""


class Driver(NamedTuple):
    """NVIDIA's driver: its version, and the newest CUDA that it knows, e.g. `(13, 0)`; None where it does not tell."""

    version: str
    cuda: tuple[int, int] | None


@contextmanager
def nvml_open() -> Iterator[Any]:
    """nvidia-ml-py's module, with NVML open for the time of a `with` block; None where there is no driver.

    Ask all that belongs together within one block: where no daemon keeps the driver awake, each opening may take a
    second.

    Raises:
        MachineError: if there is a driver that does not answer, or if what is asked within the block fails.
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
        with suppress(pynvml.NVMLError):  # nothing is left to ask
            pynvml.nvmlShutdown()


def _opened(nvml: Any) -> bool:
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
        return False
    except nvml.NVMLError as error:
        raise MachineError(_broken(error)) from error
    return True


def told(ask: Callable[..., Fact], *about: Any) -> Fact | None:
    """What NVML answers; None where it does not tell this user this of this GPU, or is too old to know.

    Raises:
        NVMLError: if the GPU is lost, for then nothing else it says is of use.
    """
    import pynvml

    try:
        return ask(*about)
    except pynvml.NVMLError_GpuIsLost:
        raise
    except pynvml.NVMLError:
        return None


def pids_on(handle: Any) -> list[int]:
    """The processes that compute on a GPU or MIG device, with NVML open. Those of other containers are not among them.

    nvidia-ml-py's function without a version raises what is no NVMLError where the driver has only older lists.

    Raises:
        NVMLError: NVML does not tell.
    """
    import pynvml

    return sorted(int(process.pid) for process in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle))


def driver() -> Driver | None:
    """The driver of this machine; None without one.

    Raises:
        MachineError: if there is one that does not answer.
    """
    with nvml_open() as nvml:
        return None if nvml is None else driver_of(nvml)


def driver_of(nvml: Any) -> Driver:
    """As `driver`, with NVML open. NVML writes CUDA 13.1 as 13010."""
    cuda = told(nvml.nvmlSystemGetCudaDriverVersion_v2)
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
