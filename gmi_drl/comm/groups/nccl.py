"""A group of GMIs on the GPUs of a host that sums by NCCL."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gmi_drl.comm import nccl_communicator as communicator
from gmi_drl.comm.groups.async_work import AsyncWork, in_background
from gmi_drl.comm.groups.gloo import GlooGroup
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import BARRIER, REDUCE, call_code
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError, UsageError

_INSTEAD = "another reduction, such as MPR-shm, or IPC on a single GPU"


class NcclGroup(GlooGroup):
    """A `GlooGroup` that sums on its GPUs by a `ProcessGroupNCCL` of its own.

    A waiting rank checks its peers, as with gloo, and aborts the communicator when one is lost.

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
        communicator.check(self._most, _INSTEAD)
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
        communicator.prepare(device, self._most, _INSTEAD)
        distributed: Any = torch.distributed  # torch's stubs lag behind
        store = distributed.PrefixStore("nccl", self._store)
        self._nccl = nccl = communicator.process_group(store, self.rank, self.size)
        self._on_gpu(BARRIER, lambda: in_background(lambda: communicator.connect(nccl, device, _INSTEAD)))

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
            communicator.abort(nccl)
