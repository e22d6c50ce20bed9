"""Copies between host and device for which the host does not wait."""

import ctypes
import warnings

import torch
from torch import Tensor

from gmi_drl.comm.memory.cuda_context import driver, error_name, finish, make_current
from gmi_drl.errors import GmiWarning


def pinned_zeros(*shape: int, device: torch.device) -> Tensor:
    """Float32 zeros in pinned host memory; in ordinary memory if the device is no GPU."""
    return torch.zeros(*shape, pin_memory=device.type == "cuda")


def await_stream(device: torch.device) -> None:
    """Block the host until all work in the current stream of a GPU is done. Returns at once for other devices."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


class Upload:
    """Copies to a device, one after the other, from the same pinned or registered memory.

    From any other memory the host waits for each copy. Call `wait` before the memory is written again: a copy may still
    be reading it.
    """

    def __init__(self) -> None:
        self._done: torch.cuda.Event | None = None

    def start(self, source: Tensor, target: Tensor) -> None:
        """Copy `source` into `target`, in order with the current stream of its device.

        A target on the host is complete when this returns.
        """
        target.copy_(source, non_blocking=target.device.type != "cpu")
        if target.device.type == "cuda":
            self._done = self._done or torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._done.record(torch.cuda.current_stream(target.device))

    def wait(self) -> None:
        """Wait until the last copy is done, whatever its stream."""
        if self._done is not None:
            self._done.synchronize()


def register(memory: Tensor) -> bool:
    """Lock pages of host memory, so that copies between it and the GPU go by DMA.

    If CUDA refuses, as in some virtual machines, this warns, and copies go through the driver's memory. It calls the
    driver and not CUDA's runtime, which would report its error again at torch's next kernel launch.

    Args:
        memory: Whole pages, which nothing else in this process registers; it must stay until `unregister`.

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
    """Undo a `register` that returned True, after all copies that were started are done."""
    finish()  # also after a fault of the GPU, by which its whole context is lost
    driver().cuMemHostUnregister(ctypes.c_void_p(memory.data_ptr()))
