"""Numbers of the host on their way to a device, which the host does not wait for."""

import ctypes
import warnings

import torch
from torch import Tensor

from gmi_drl.comm.memory.cuda_context import driver, error_name, finish, make_current
from gmi_drl.errors import GmiWarning


def pinned_zeros(*shape: int, device: torch.device) -> Tensor:
    """Float32 zeros on the host that the device reads by itself; ordinary memory where the device is no GPU."""
    return torch.zeros(*shape, pin_memory=device.type == "cuda")


def await_stream(device: torch.device) -> None:
    """Have the host wait until all that was launched in the current stream of a GPU is done; at once elsewhere."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


class Upload:
    """Copies to a device, one after the other from the same memory, pinned or registered with CUDA.

    From any other memory the host waits for a copy. `wait` before it is written again: a copy may still be reading it.
    """

    def __init__(self) -> None:
        self._done: torch.cuda.Event | None = None

    def start(self, source: Tensor, target: Tensor) -> None:
        """Copy `source` into `target`, in order with what else the current stream of its device was told.

        A target on the host has it when this returns.
        """
        target.copy_(source, non_blocking=target.device.type != "cpu")
        if target.device.type == "cuda":
            self._done = self._done or torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._done.record(torch.cuda.current_stream(target.device))

    def wait(self) -> None:
        """Wait until the last copy is done, on whichever stream."""
        if self._done is not None:
            self._done.synchronize()


def register(memory: Tensor) -> bool:
    """Lock the pages of memory on the host, so that copies between it and the GPU go by DMA (not yet run on a GPU).

    Where CUDA refuses, as in some virtual machines, a warning says so, and the copies go through the driver's memory.
    The driver is asked and not CUDA's runtime, which would tell its error again at torch's next launch of a kernel.

    Args:
        memory: Whole pages, which nobody else of this process registers; it must be there until `unregister`.

    Returns:
        Whether it is registered.

    Raises:
        MachineError: CUDA cannot be used at all.
    """
    if refused := try_to_register(memory):
        warnings.warn(f"{refused}, so copies between host and GPU are slower", GmiWarning, stacklevel=1)
    return not refused


def try_to_register(memory: Tensor) -> str:
    """As `register`, but returns why CUDA refuses; empty if it does not."""
    make_current()
    size = ctypes.c_size_t(memory.numel() * memory.element_size())
    code = driver().cuMemHostRegister_v2(ctypes.c_void_p(memory.data_ptr()), size, 0)
    return f"CUDA does not register memory of this host ({error_name(code)})" if code else ""


def unregister(memory: Tensor) -> None:
    """Undo `register` that returned True, when all copies that were begun are done (not yet run on a GPU)."""
    finish()  # also after a fault of the GPU, by which its whole context is lost
    driver().cuMemHostUnregister(ctypes.c_void_p(memory.data_ptr()))
