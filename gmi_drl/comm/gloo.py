"""Reduction by gloo over the loopback interface: runs on every processor."""

import mmap
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed import Work

from gmi_drl.comm.reduction import check_bucket, check_first_bucket, check_values
from gmi_drl.comm.segment import LINE_BYTES, Peers
from gmi_drl.errors import MachineError

_LOOK_EVERY = timedelta(milliseconds=100)
_LAST_DATA = timedelta(seconds=2)
_GRACE_S = 1  # gloo gives up a little later than we do, so that ours is the error that people read


class GlooReduction:
    """A `Reduction` over a `ProcessGroupGloo` of its own; torch's default group is left alone.

    `wait_s` has the whole time in gloo, which does not tell waiting from moving data.

    Args:
        rank: This process.
        size: Processes in the group.
        store_path: A path on this host where the ranks meet, the same for all and unused before.
        hang_s: Seconds after which a peer that lives counts as silent.

    Raises:
        MachineError: If this build of torch lacks gloo, or the path cannot be written.
        PeerSilentError: If the others have not come within `hang_s`.
    """

    def __init__(self, rank: int, size: int, store_path: Path, hang_s: float) -> None:
        if not torch.distributed.is_gloo_available():
            raise MachineError("this build of torch has no gloo: use MPR-shm or another build")
        self.rank = rank
        self.size = size
        self.wait_s = 0.0
        self._bucket: Tensor | None = None
        self._peers = _meet(rank, size, store_path, hang_s)
        try:
            self._group = _connect(rank, size, store_path, hang_s)
        except RuntimeError as error:
            self._peers.raise_lost(str(error))

    def bucket(self, numel: int) -> Tensor:
        """A zeroed vector; see `Reduction`."""
        check_first_bucket(self._bucket, numel)
        self._bucket = torch.zeros(numel)
        return self._bucket

    def reduce(self, bucket: Tensor) -> None:
        """Sum in place over the group, through host memory if need be; see `Reduction`."""
        check_bucket(bucket)
        host = bucket.detach().cpu()  # itself if it is there already
        self._finish(lambda: self._group.allreduce([host]))
        if host.device != bucket.device:
            bucket.detach().copy_(host)

    def gather(self, values: Tensor) -> Tensor:
        """The vectors of all ranks; see `Reduction`."""
        check_values(values)
        everyone = torch.empty(self.size * values.numel(), dtype=torch.float64)
        self._finish(lambda: self._group._allgather_base(everyone, values.detach().contiguous()))
        return everyone.view(self.size, values.numel())

    def barrier(self) -> None:
        """Wait for all; see `Reduction`."""
        self._finish(self._group.barrier)

    def close(self) -> None:
        """Leave the group, whose last rank removes the store; see `Reduction`."""
        self._group = None
        self._peers.close()

    def _finish(self, start: Callable[[], Work]) -> None:
        """Start an operation and wait for its end, looking after the peers every now and then."""
        started = time.perf_counter()
        self._peers.arrive()
        try:
            work = start()
            while not _wait(work, _LOOK_EVERY):
                self._peers.check(started)
                # A rank may end as soon as its own part is done; then the rest of ours arrives soon, or never.
                if self._peers.any_dead() and not _wait(work, _LAST_DATA):
                    self._peers.raise_lost("its data stopped half-way")
        except RuntimeError as error:
            self._peers.check(started)
            self._peers.raise_lost(str(error))
        finally:
            self.wait_s += time.perf_counter() - started


def _wait(work: Work, timeout: timedelta) -> bool:
    try:
        work.wait(timeout)
    except RuntimeError:
        if not work.is_completed():
            return False
        work.wait()  # raises what went wrong, unless it ended just now
    return True


def _meet(rank: int, size: int, store_path: Path, hang_s: float) -> Peers:
    path = store_path.with_name(store_path.name + ".peers")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MachineError(
            f"the ranks cannot meet at {path}: {error.strerror}; choose a folder that can be written"
        ) from error
    try:
        os.ftruncate(fd, size * LINE_BYTES)
        memory = mmap.mmap(fd, 0)
    finally:
        os.close(fd)
    peers = Peers(memory, 0, rank, size, hang_s)
    if rank == 0:
        path.unlink()  # all have mapped it
    return peers


def _connect(rank: int, size: int, store_path: Path, hang_s: float) -> Any:
    # torch's stubs lag behind: they lack the operations, the options' fields and the store.
    distributed: Any = torch.distributed
    gloo = distributed.ProcessGroupGloo
    options = gloo._Options()
    options._devices = [gloo.create_device(hostname="127.0.0.1")]
    options._timeout = timedelta(seconds=hang_s + _GRACE_S)
    return gloo(distributed.FileStore(str(store_path), size), rank, size, options)
