"""What cooperating processes need beside sums: ranks, barriers, and a few numbers of each rank for all."""

from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.errors import UsageError


class Group(Protocol):
    """The ranks of a group, on the host whatever device they compute on. All make the same calls in the same order.

    Each waiting call raises `PeerDiedError` soon after the death of a rank that it waits for, and `PeerSilentError` for
    a living rank that has not arrived within `hang_s`. Only time counts in which this process ran and no other rank
    sent a keepalive (`membership.Keepalives`). After either error a group is of no further use. If ranks make different
    calls, or the same with vectors of different lengths, all raise `UsageError` and nothing is changed.

    Attributes:
        rank: This process, from 0.
        size: Processes in the group.
    """

    rank: int
    size: int

    @property
    def wait_s(self) -> float:
        """Seconds that this rank has waited for others since the group was opened, in reductions, too."""

    def gather(self, values: Tensor) -> Tensor:
        """Gather the float64 CPU vectors `[n]` of all ranks. Returns `[size, n]` in rank order, the same on every rank.

        Raises:
            UsageError: If the tensor is not flat and float64 on the CPU.
        """
        ...

    def barrier(self) -> None:
        """Return when all ranks have called this."""
        ...

    def close(self) -> None:
        """Free what the operating system holds. Buckets stay readable."""
        ...


def check_values(values: Tensor) -> None:
    """Raise `UsageError` unless the tensor can be gathered: flat, float64, on the CPU."""
    if values.dtype != torch.float64 or values.dim() != 1 or values.device.type != "cpu":
        raise UsageError(f"a gather takes a torch.float64 vector [n] on the CPU, not {described(values)}")


def described(tensor: Tensor) -> str:
    """A tensor's dtype, shape, strides and device, for errors."""
    layout = "" if tensor.is_contiguous() else " with strides " + str(list(tensor.stride()))
    return f"{tensor.dtype} {list(tensor.shape)}{layout} on {tensor.device}"
