"""Numbers of the host on their way to a device, which the host does not wait for."""

from contextlib import suppress

import torch
from torch import Tensor

from gmi_drl.errors import MachineError
from gmi_drl.units import human_bytes


def pinned_zeros(*shape: int, device: torch.device) -> Tensor:
    """Float32 zeros on the host that the device reads by itself; ordinary memory where the device is no GPU."""
    return torch.zeros(*shape, pin_memory=device.type == "cuda")


def await_stream(device: torch.device) -> None:
    """Have the host wait until all that was launched in the current stream of a GPU is done; at once elsewhere."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


class Upload:
    """Copies to a device, one after the other from the same memory, pinned or registered with CUDA.

    From any other memory the host would wait. `wait` before it is written again: a copy may still be reading it.
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


def register(memory: Tensor, remedy: str) -> None:
    """Lock the pages of memory on the host for copies by DMA (not yet run on a GPU).

    Args:
        memory: Whole pages, which nobody else of this process registers; it must be there until `unregister`.
        remedy: What to do where CUDA refuses.

    Raises:
        MachineError: If it does.
    """
    size = memory.numel() * memory.element_size()
    code = int(torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), size, 0))  # type: ignore[no-untyped-call]
    if code != 0:
        text = f"CUDA cannot register {human_bytes(size)} of shared memory (error {code})"
        raise MachineError(f"{text}: is locked memory limited (ulimit -l)? {remedy}")


def unregister(memory: Tensor) -> None:
    """Undo it, when all copies that were begun have been done (not yet run on a GPU)."""
    with suppress(RuntimeError):  # after a fault of the GPU all of its context is lost
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaHostUnregister(memory.data_ptr())  # type: ignore[no-untyped-call]
