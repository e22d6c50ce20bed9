"""What the driver is asked for, by one that notes it down."""

import ctypes
from contextlib import nullcontext

import pytest
import torch

from gmi_drl.comm.memory import cuda_context, cuda_ipc
from gmi_drl.errors import MachineError, UsageError

GPU = torch.device("cuda:0")


class Driver:
    """Answers like `libcuda`; `fails` names a call that does."""

    def __init__(self, fails=""):
        self.fails, self.asked = fails, []

    def cuMemAlloc_v2(self, address, size):  # noqa: N802
        address._obj.value = 1 << 40
        return self._answer("cuMemAlloc_v2", size.value)

    def cuIpcGetMemHandle(self, handle, address):  # noqa: N802
        handle._obj.reserved[:] = range(cuda_ipc.HANDLE_BYTES)
        return self._answer("cuIpcGetMemHandle", address.value)

    def cuIpcOpenMemHandle_v2(self, address, handle, flags):  # noqa: N802
        address._obj.value = 2 << 40
        return self._answer("cuIpcOpenMemHandle_v2", bytes(handle.reserved), flags.value)

    def cuIpcCloseMemHandle(self, address):  # noqa: N802
        return self._answer("cuIpcCloseMemHandle", address.value)

    def cuGetErrorName(self, code, name):  # noqa: N802
        name._obj.value = b"CUDA_ERROR_NOT_SUPPORTED"
        return 0

    def _answer(self, name, *given):
        self.asked.append((name, *given))
        return 801 if name == self.fails else 0


@pytest.fixture
def driver(monkeypatch):
    driver = Driver()
    for module in (cuda_context, cuda_ipc):
        monkeypatch.setattr(module, "driver", lambda: driver)
    monkeypatch.setattr(cuda_ipc, "_context_of", lambda device: nullcontext())
    monkeypatch.setattr(cuda_ipc, "_tensor_at", lambda *given: given)
    return driver


@pytest.mark.parametrize(("numel", "size"), [(1, 2 << 20), (1 << 19, 2 << 20), ((1 << 19) + 1, 4 << 20)])
def test_memory_that_is_shared_takes_blocks_of_its_own(driver, numel, size):
    """So that nothing else lies in what others map, and its beginning is the beginning of what they map."""
    shared = cuda_ipc.SharedDeviceMemory(numel, GPU)
    assert driver.asked == [("cuMemAlloc_v2", size), ("cuIpcGetMemHandle", 1 << 40)]
    assert shared.handle == bytes(range(cuda_ipc.HANDLE_BYTES)) and shared.tensor == (1 << 40, numel, GPU)


def test_what_is_mapped_is_unmapped(driver):
    mapped = cuda_ipc.MappedDeviceMemory(bytes(range(cuda_ipc.HANDLE_BYTES)), 3, GPU)
    assert driver.asked == [("cuIpcOpenMemHandle_v2", bytes(range(cuda_ipc.HANDLE_BYTES)), 1)]
    assert mapped.tensor == (2 << 40, 3, GPU)
    mapped.close()
    assert driver.asked[-1] == ("cuIpcCloseMemHandle", 2 << 40)


@pytest.mark.parametrize("name", ["cuMemAlloc_v2", "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2"])
def test_a_gpu_that_cannot_is_told_with_the_remedy(driver, name):
    driver.fails = name
    with pytest.raises(MachineError, match=rf"{name}: CUDA_ERROR_NOT_SUPPORTED.*MIG instances.*MPR-shm.*on_gpu: false"):
        cuda_ipc.SharedDeviceMemory(3, GPU)
        cuda_ipc.MappedDeviceMemory(bytes(cuda_ipc.HANDLE_BYTES), 3, GPU)


def test_a_lost_context_does_not_hide_what_went_wrong_before(driver, monkeypatch):
    def lost(device):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    mapped = cuda_ipc.MappedDeviceMemory(bytes(cuda_ipc.HANDLE_BYTES), 3, GPU)
    monkeypatch.setattr(cuda_ipc, "_context_of", lost)
    mapped.close()


def test_a_handle_is_passed_as_the_driver_declares_it():
    assert ctypes.sizeof(cuda_ipc._Handle) == cuda_ipc.HANDLE_BYTES == 64


def test_memory_of_the_host_is_refused():
    with pytest.raises(UsageError, match="memory of a GPU, not of cpu: use MPR-shm"):
        cuda_ipc.SharedDeviceMemory(3, torch.device("cpu"))
