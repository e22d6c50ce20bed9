"""A group that sums through `torch.distributed`, as its users do."""

from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.distributed import Work

from gmi_drl.comm.groups.async_work import AsyncWork
from gmi_drl.comm.groups.gloo import NEVER, GlooGroup
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import REDUCE, call_code
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.layout.reductions import TORCH, refusal

_distributed: Any = torch.distributed  # torch's stubs lag behind


class TorchGroup(GlooGroup):
    """A `GlooGroup` behind a `torch.distributed.ProcessGroup` of its own; torch's default group is left alone.

    Sums are `torch.distributed.all_reduce`: on the CPU by gloo and, after `join_gpus`, on a GPU by NCCL.

    Args:
        member: This process.
        rendezvous: With a store.

    Raises:
        See `GlooGroup`.
    """

    def __init__(self, member: Membership, rendezvous: Rendezvous) -> None:
        super().__init__(member, rendezvous)
        self._mapping = member.mapping
        self._nccl: Any = None
        self._front: Any = _distributed.ProcessGroup(self._store, self.rank, self.size)
        self._register("cpu", self._front.BackendType.GLOO, self._group)

    def join_gpus(self) -> None:
        """Let NCCL sum what is on GPUs. All ranks call it.

        Raises:
            UsageError: If two ranks are on one GPU, which NCCL does not support.
            MachineError: If this build of torch lacks NCCL.
        """
        if obstacle := refusal(TORCH, self._mapping, "gpu"):
            raise UsageError(obstacle)
        if not _distributed.is_nccl_available():
            raise MachineError("this build of torch has no NCCL: use MPR-gloo or another build")
        options = _distributed.ProcessGroupNCCL.Options()
        options._timeout = NEVER
        store = _distributed.PrefixStore("nccl", self._store)
        self._nccl = _distributed.ProcessGroupNCCL(store, self.rank, self.size, options)
        self._register("cuda", self._front.BackendType.NCCL, self._nccl)

    def sum(self, vector: Tensor) -> None:
        """Sum a float32 vector `[n]` in place over the group."""
        self._finish(call_code(REDUCE, vector.numel()), lambda: self._start(vector))

    def close(self) -> None:
        """Leave the group; see `GlooGroup`."""
        self._front = self._nccl = None
        super().close()

    def _start(self, vector: Tensor) -> Work | AsyncWork:
        work: Work = _distributed.all_reduce(vector, group=self._front, async_op=True)
        # NCCL's own `wait` checks no peers: it waits in the stream, or ends the process.
        return work if vector.device.type == "cpu" else AsyncWork(work.is_completed, work.wait)

    def _give_up(self) -> None:
        """See `GlooGroup`. Aborts what NCCL waits for on the GPU."""
        super()._give_up()
        if self._nccl:
            self._nccl.abort()

    def _register(self, device: str, kind: Any, backend: Any) -> None:
        self._front._register_backend(torch.device(device), kind, backend)
