"""The CUDA context of this process on its GPU, made through the driver API, with retries.

It is the primary context of the one GPU that a GMI sees. Torch and Warp use the same one, so it may be made before
either is called (CUDA driver API, "Primary Context Management").
"""

import ctypes
import time
from functools import cache
from typing import Any

from gmi_drl.errors import MachineError

FIRST = 0
NOT_READY = 807
"""CUDA_ERROR_MPS_SERVER_NOT_READY: a server is just starting, takes a client's contexts away, or recovers.

It passes, so calls are repeated: https://docs.nvidia.com/deploy/mps, "Troubleshooting Guide".
"""

READY_S = 60.0
RETRY_S = 0.1


def make_context() -> None:
    """Make the context, if it is not there.

    Raises:
        MachineError: if CUDA cannot.
    """
    _context()


def make_current() -> None:
    """Make the context current in this thread.

    Raises:
        MachineError: if CUDA cannot.
    """
    _call("cuCtxSetCurrent", _context())


def finish() -> None:
    """Wait until the GPU has done all work of this process, if it has a context. Errors are ignored."""
    if _context.cache_info().currsize:
        driver().cuCtxSetCurrent(_context())
        driver().cuCtxSynchronize()


def error_name(code: int) -> str:
    """The driver's name of an error, such as `CUDA_ERROR_OUT_OF_MEMORY`."""
    name = ctypes.c_char_p()
    driver().cuGetErrorName(code, ctypes.byref(name))
    return name.value.decode() if name.value else f"error {code}"


@cache
def driver() -> ctypes.CDLL:
    """The driver's library, the one that torch uses, too."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise MachineError("there is no libcuda.so.1: it comes with NVIDIA's driver") from None


@cache
def _context() -> ctypes.c_void_p:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _call("cuInit", 0)
    _call("cuDeviceGet", ctypes.byref(device), FIRST)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    return context


def _call(name: str, *arguments: Any) -> None:
    deadline = time.monotonic() + READY_S
    while (code := getattr(driver(), name)(*arguments)) == NOT_READY and time.monotonic() < deadline:
        time.sleep(RETRY_S)
    if code:
        said = f"{name}: {error_name(code)}"
        raise MachineError(f"CUDA cannot be used by this process ({said}): is the GPU free, and does it work?")
