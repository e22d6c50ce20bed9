"""GPU memory that several processes have mapped (CUDA IPC).

It comes from the driver and not from torch's allocator, whose expandable segments and cudaMallocAsync cannot be mapped,
and in whose segments other tensors lie, too. Sizes are multiples of 2 MiB: of smaller ones the driver puts several into
one block, which is mapped as a whole (CUDA programming guide, "Interprocess Communication").
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor

from gmi_drl.comm.memory.cuda_context import driver, error_name
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.units import human_bytes

HANDLE_BYTES = 64

_BLOCK_BYTES = 2 * 2**20
_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS: the one flag there is, and it must be given


class SharedDeviceMemory:
    """Float32 memory of this process on a GPU, which other processes may map.

    It is freed when the process ends and not before, because others may still have it mapped.

    Args:
        numel: How many floats.
        device: The GPU.

    Attributes:
        tensor: `[numel]`, uninitialized.
        handle: `HANDLE_BYTES` by which another process maps it.

    Raises:
        UsageError: If the device is no GPU.
        MachineError: If there is no room, or other processes cannot map this GPU's memory.
    """

    def __init__(self, numel: int, device: torch.device) -> None:
        if device.type != "cuda":
            raise UsageError(f"CUDA IPC shares memory of a GPU, not of {device}: use MPR-shm")
        address, handle = ctypes.c_uint64(), _Handle()
        size = -(-4 * numel // _BLOCK_BYTES) * _BLOCK_BYTES
        with _context_of(device):
            _call("cuMemAlloc_v2", size, ctypes.byref(address), ctypes.c_size_t(size))
            _call("cuIpcGetMemHandle", size, ctypes.byref(handle), address)
        self.tensor = _tensor_at(address.value, numel, device)
        self.handle = bytes(handle.reserved)


class MappedDeviceMemory:
    """Another process's `SharedDeviceMemory` on the same GPU.

    Args:
        handle: The other's handle; CUDA does not map a process's own memory.
        numel: As many floats as the other has, or fewer.
        device: The GPU, as this process sees it.

    Attributes:
        tensor: `[numel]`, not to be used after `close`.

    Raises:
        MachineError: If it cannot be mapped, as between MIG instances.
    """

    def __init__(self, handle: bytes, numel: int, device: torch.device) -> None:
        self._device, self._address = device, ctypes.c_uint64()
        flags, size = ctypes.c_uint(_PEER_ACCESS), 4 * numel
        with _context_of(device):
            theirs = _Handle.from_buffer_copy(handle)
            _call("cuIpcOpenMemHandle_v2", size, ctypes.byref(self._address), theirs, flags)
        self.tensor = _tensor_at(self._address.value, numel, device)

    def close(self) -> None:
        """Unmap it, when all launched work is done."""
        with suppress(RuntimeError), _context_of(self._device):  # after a fault of the GPU all of its context is lost
            driver().cuIpcCloseMemHandle(self._address)


class _Handle(ctypes.Structure):
    """`CUipcMemHandle`."""

    _fields_ = (("reserved", ctypes.c_ubyte * HANDLE_BYTES),)


class _Array:
    """Memory at an address, as torch takes it without a copy."""

    def __init__(self, address: int, numel: int) -> None:
        self.__cuda_array_interface__ = {"version": 2, "data": (address, False), "shape": (numel,), "typestr": "<f4"}


def _tensor_at(address: int, numel: int, device: torch.device) -> Tensor:
    return torch.as_tensor(_Array(address, numel), device=device)


@contextmanager
def _context_of(device: torch.device) -> Iterator[None]:
    """Make torch's context of a device current, which the driver's calls need."""
    with torch.cuda.device(device):
        torch.cuda.synchronize()
        yield


def _call(name: str, size: int, *arguments: Any) -> None:
    code = getattr(driver(), name)(*arguments)
    if code:
        text = f"CUDA cannot share {human_bytes(size)} between the processes of a GPU ({name}: {error_name(code)})"
        raise MachineError(
            f"{text}: is it full? MIG instances and some virtual GPUs share none. "
            "Sum by MPR-shm (`gmi-drl plan` measures that and writes it into a layout, and trainings without a layout "
            "take it from then on), and send experience by `channels: {on_gpu: false}`"
        )
