"""A group of processes of one host that use gloo over the loopback interface: runs on every processor."""

import ctypes
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch.distributed import Work

from gmi_drl.comm.group import check_values
from gmi_drl.comm.groups.async_work import AsyncWork
from gmi_drl.comm.loopback import LOOPBACK, require_loopback
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import BARRIER, GATHER, REDUCE, call_code
from gmi_drl.comm.memory.rank_table import RankTable
from gmi_drl.comm.memory.segment import LINE_BYTES, map_segment
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError

# torch's stubs lag behind: they lack the operations, the options' fields and the store.
_distributed: Any = torch.distributed
_LOOK_EVERY = timedelta(milliseconds=100)
_LAST_DATA = timedelta(seconds=2)
_GRACE_S = 1  # gloo's own timeout is a little longer, so that our error is the one that people read
NEVER = timedelta(days=1000)  # this package checks the peers; gloo's clock runs on while this process is stopped


class GlooGroup:
    """A `Group` over a `ProcessGroupGloo` of its own; torch's default group is left alone.

    `wait_s` is the whole time in gloo, where waiting and moving data are not told apart.

    Args:
        member: This process.
        rendezvous: With a store. Torch opens it by its descriptor whenever it needs it, and at its end.

    Raises:
        MachineError: If this build of torch lacks gloo, or loopback is down.
        UsageError: If the descriptor is no segment for this many ranks.
        PeerSilentError: If the others have not joined within `hang_s`.
    """

    def __init__(self, member: Membership, rendezvous: Rendezvous) -> None:
        assert rendezvous.segment is not None and rendezvous.store is not None
        if not torch.distributed.is_gloo_available():
            raise MachineError("this build of torch has no gloo: use MPR-shm or another build")
        require_loopback()
        self.rank = member.rank
        self.size = member.size
        self.wait_s = 0.0
        memory, _ = map_segment(rendezvous.segment, member.size)
        self._peers = RankTable(memory, LINE_BYTES, member)
        try:
            self._store = _distributed.FileStore(f"/proc/self/fd/{rendezvous.store}", member.size)
            self._group = _connect(member, self._store)
        except RuntimeError as error:
            try:
                self._peers.raise_lost(str(error))
            finally:
                self._peers.close()

    def gather(self, values: Tensor) -> Tensor:
        """The vectors of all ranks; see `Group`."""
        check_values(values)
        everyone = torch.empty(self.size * values.numel(), dtype=torch.float64)
        call = call_code(GATHER, values.numel())
        self._finish(call, lambda: self._group._allgather_base(everyone, values.detach().contiguous()))
        return everyone.view(self.size, values.numel())

    def barrier(self) -> None:
        """Wait for all; see `Group`."""
        self._finish(BARRIER, self._group.barrier)

    def sum(self, vector: Tensor) -> None:
        """Sum a float32 vector `[n]` on the CPU in place over the group."""
        self._finish(call_code(REDUCE, vector.numel()), lambda: self._group.allreduce([vector]))

    def close(self) -> None:
        """Leave the group; see `Group`."""
        self._group = self._store = None
        self._peers.close()

    def _finish(self, call: int, start: Callable[[], Work | AsyncWork]) -> None:
        """Wait until all ranks make the same call, and run an operation with them.

        Without this, gloo would mix the numbers of different calls, or wait for ever.
        """
        started = time.perf_counter()
        try:
            self._peers.sync(call)
            self._do(start)
        except (PeerDiedError, PeerSilentError):
            self._give_up()
            raise
        finally:
            self.wait_s += time.perf_counter() - started

    def _give_up(self) -> None:
        """Make sure that nothing waits for an operation that was in progress when a peer was lost."""
        _keep_for_ever(self._group)

    def _do(self, start: Callable[[], Work | AsyncWork]) -> None:
        """Start an operation and wait for its end, checking the peers meanwhile."""
        waiting = WaitClock()
        try:
            work = start()
            while not _wait(work, _LOOK_EVERY):
                self._peers.check(waiting)
                # A rank may end as soon as its own part is done: then our data arrives soon or never.
                if self._peers.any_dead() and not _wait(work, _LAST_DATA):
                    self._peers.raise_lost("its data stopped half-way")
        except RuntimeError as error:
            self._peers.check(waiting)
            self._peers.raise_lost(str(error))


def _wait(work: Work | AsyncWork, timeout: timedelta) -> bool:
    try:
        work.wait(timeout)
    except RuntimeError:
        if not work.is_completed():
            return False
        work.wait()  # raises its error, unless it ended just now
    return True


def _keep_for_ever(group: Any) -> None:
    """Never free a process group: gloo cannot cancel operations, so freeing it, even at exit, would wait for peers.

    Data of living peers may be under way through it, too.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def _connect(member: Membership, store: Any) -> Any:
    gloo = _distributed.ProcessGroupGloo
    options = gloo._Options()
    options._devices = [gloo.create_device(hostname=LOOPBACK)]
    options._timeout = timedelta(seconds=member.hang_s + _GRACE_S)
    group = gloo(store, member.rank, member.size, options)
    group._set_default_timeout(NEVER)
    return group
