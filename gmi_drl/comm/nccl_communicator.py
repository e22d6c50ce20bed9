"""A communicator of NCCL that torch opens, and no default group, watchdog or timeout of torch with it.

NCCL waits for ever for a rank that has ended, and torch's watchdog would end this process. So the watchdog is off, and
who waits checks its peers by other means.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch

from gmi_drl.comm.groups.async_work import in_background
from gmi_drl.errors import MachineError, UsageError

SEVERAL_PER_GPU = (2, 30)
"""The first NCCL that takes several ranks of a GPU (experimental; its user guide, NCCL_MULTI_RANK_GPU_ENABLE)."""

_ABORT_S = 5.0
_LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo"}
# Blocks of threads of all ranks must fit onto the GPU at once, or all wait for ever. Four move some MB well enough.
_SHARED_GPU = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "4"}


def check(most: int, instead: str) -> None:
    """Raise unless there is an NCCL for so many ranks of a GPU.

    Args:
        most: Ranks of a GPU.
        instead: What to take if there is none: "MPR-shm".

    Raises:
        MachineError: with what to use instead.
    """
    if not torch.distributed.is_nccl_available():
        raise MachineError(f"this build of torch has no NCCL: use {instead}, or torch's CUDA build")
    have = version()
    if most > 1 and have < SEVERAL_PER_GPU:
        has, needs = (".".join(map(str, version)) for version in (have, SEVERAL_PER_GPU))
        text = f"NCCL {has} takes one rank of a GPU, {most} need {needs} or newer"
        raise MachineError(f"{text}: use {instead}, or a torch that comes with such an NCCL")


def version() -> tuple[int, ...]:
    """The version of the NCCL that is loaded; an old torch only knows the one with which it was built."""
    distributed: Any = torch.distributed
    tell = getattr(distributed.ProcessGroupNCCL, "get_runtime_nccl_version", torch.cuda.nccl.version)
    return tuple(tell()[:3])


def prepare(device: torch.device, most: int, instead: str, *, on_one_host: bool = True) -> None:
    """Tell NCCL how ranks meet, by its environment variables; what the user has set stays.

    Args:
        device: Of this rank.
        most: Ranks of a GPU.
        instead: As in `check`.
        on_one_host: Whether all ranks are on this host, and need no other network than the loopback.

    Raises:
        UsageError: If the device is no GPU.
    """
    if device.type != "cuda":
        raise UsageError(f"NCCL works on GPUs, not on {device}: use {instead}")
    for name, value in ((_LOOPBACK if on_one_host else {}) | (_SHARED_GPU if most > 1 else {})).items():
        os.environ.setdefault(name, value)


def process_group(store: Any, rank: int, size: int) -> Any:
    """A `ProcessGroupNCCL` without a watchdog; `connect` makes its communicator."""
    distributed: Any = torch.distributed  # torch's stubs lag behind
    options = distributed.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=_ABORT_S)  # of an abort; nothing else uses it here
    with _setting("TORCH_NCCL_BLOCKING_WAIT", "1"):  # so that torch starts no watchdog
        return distributed.ProcessGroupNCCL(store, rank, size, options)


def connect(nccl: Any, device: torch.device, instead: str) -> None:
    """Make the communicator; returns when all ranks have come.

    Raises:
        MachineError: If NCCL cannot.
    """
    try:
        nccl.eager_connect_single_device(device)
    except RuntimeError as error:
        raise MachineError(
            f"NCCL cannot connect the ranks: {error}. NCCL_DEBUG=WARN logs more; use {instead}"
        ) from error


def abort(nccl: Any) -> None:
    """End a communicator and what waits in it. The abort itself may never return: it is left to itself then."""
    with suppress(RuntimeError):
        in_background(nccl.abort).wait(timedelta(seconds=_ABORT_S))


@contextmanager
def _setting(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for the time of a `with` block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        os.environ.update({} if before is None else {name: before})
