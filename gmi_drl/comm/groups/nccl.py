"""A group of GMIs on the GPUs of a host that sums by NCCL."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from gmi_drl.comm.groups.async_work import AsyncWork, in_background
from gmi_drl.comm.groups.gloo import GlooGroup
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import BARRIER, REDUCE, call_code
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError, UsageError

SEVERAL_PER_GPU = (2, 30)
"""The first NCCL that takes several ranks of a GPU (experimental; its user guide, NCCL_MULTI_RANK_GPU_ENABLE)."""

_ABORT_S = 5.0
_LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo"}
# Blocks of threads of all ranks must fit onto the GPU at once, or all wait for ever. Four move some MB well enough.
_SHARED_GPU = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "4"}


class NcclGroup(GlooGroup):
    """A `GlooGroup` that sums on its GPUs by a `ProcessGroupNCCL` of its own. Not yet run on a GPU.

    NCCL waits for ever for a rank that has ended, and torch's watchdog would end this process. So the watchdog is off:
    a waiting rank checks its peers, as with gloo, and aborts the communicator when one is lost.

    Args:
        member: This process.
        rendezvous: With a store.

    Raises:
        MachineError: If there is no NCCL, one too old for several ranks of a GPU, or as for `GlooGroup`.
        UsageError: If the descriptor is no segment for this many ranks.
        PeerSilentError: If the others have not joined within `hang_s`.
    """

    def __init__(self, member: Membership, rendezvous: Rendezvous) -> None:
        self._most = max(map(len, member.mapping))
        _check(self._most)
        self._nccl: Any = None
        super().__init__(member, rendezvous)

    def connect(self, device: torch.device) -> None:
        """Make the communicator, for one reduction. All ranks call it.

        Raises:
            UsageError: If there is one, or the device is no GPU.
            MachineError: If NCCL cannot.
        """
        if self._nccl is not None:
            raise UsageError("this group has a reduction already: open another group")
        _prepare(device, self._most)
        distributed: Any = torch.distributed  # torch's stubs lag behind
        store = distributed.PrefixStore("nccl", self._store)
        self._nccl = nccl = _process_group(store, self.rank, self.size)
        self._on_gpu(BARRIER, lambda: in_background(lambda: _connect(nccl, device)))

    def sum_on_gpu(self, vector: Tensor) -> None:
        """Sum a float32 vector `[n]` on the GPU in place over the group. It is complete when this returns."""
        self._on_gpu(call_code(REDUCE, vector.numel()), lambda: self._start(vector))

    def close(self) -> None:
        """Leave the group; see `Group`. Nothing is in progress, so this waits for nobody."""
        self._end()
        super().close()

    def _start(self, vector: Tensor) -> AsyncWork:
        # NCCL's own `wait(timeout)` aborts the communicator at the timeout; without one it only orders the stream.
        work = self._nccl.allreduce([vector])
        return AsyncWork(work.is_completed, work.wait)

    def _on_gpu(self, call: int, start: Callable[[], AsyncWork]) -> None:
        try:
            self._finish(call, start)
            self._peers.sync(call)  # others may still read memory that ends with this communicator
        except (PeerDiedError, PeerSilentError, MachineError):
            self._give_up()
            raise

    def _give_up(self) -> None:
        """See `GlooGroup`. Aborts the communicator and what waits in it; the abort itself may never return."""
        super()._give_up()
        self._end()

    def _end(self) -> None:
        nccl, self._nccl = self._nccl, None
        if nccl is not None:
            with suppress(RuntimeError):
                in_background(nccl.abort).wait(timedelta(seconds=_ABORT_S))


def _check(most: int) -> None:
    if not torch.distributed.is_nccl_available():
        raise MachineError(
            "this build of torch has no NCCL: take another reduction, such as MPR-shm, or torch's CUDA build"
        )
    have = _version()
    if most > 1 and have < SEVERAL_PER_GPU:
        has, needs = (".".join(map(str, version)) for version in (have, SEVERAL_PER_GPU))
        text = f"NCCL {has} takes one GMI per GPU, {most} need {needs} or newer"
        raise MachineError(f"{text}: use MPR-shm, IPC on a single GPU, or a torch that comes with such an NCCL")


def _version() -> tuple[int, ...]:
    """The version of the NCCL that is loaded; an old torch only knows the one with which it was built."""
    distributed: Any = torch.distributed
    tell = getattr(distributed.ProcessGroupNCCL, "get_runtime_nccl_version", torch.cuda.nccl.version)
    return tuple(tell()[:3])


def _prepare(device: torch.device, most: int) -> None:
    if device.type != "cuda":
        raise UsageError(f"NCCL sums on GPUs, not on {device}: use MPR-shm")
    for name, value in (_LOOPBACK | (_SHARED_GPU if most > 1 else {})).items():
        os.environ.setdefault(name, value)


def _process_group(store: Any, rank: int, size: int) -> Any:
    distributed: Any = torch.distributed  # torch's stubs lag behind
    options = distributed.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=_ABORT_S)  # of an abort; nothing else uses it here
    with _setting("TORCH_NCCL_BLOCKING_WAIT", "1"):  # so that torch starts no watchdog
        return distributed.ProcessGroupNCCL(store, rank, size, options)


def _connect(nccl: Any, device: torch.device) -> None:
    try:
        nccl.eager_connect_single_device(device)
    except RuntimeError as error:
        raise MachineError(f"NCCL cannot connect the GMIs: {error}. NCCL_DEBUG=WARN logs more; use MPR-shm") from error


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
