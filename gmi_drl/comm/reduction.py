"""What every gradient reduction does, and the one for a group of one."""

from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.errors import UsageError


class Reduction(Protocol):
    """Sums vectors over the ranks of a group (paper section 4.1). All ranks make the same calls in the same order.

    Every call that waits raises `PeerDiedError` soon after the death of a rank that it waits for, and `PeerSilentError`
    for one that lives but has not arrived within `hang_s`, in which this process was running; a reduction that raised
    either is of no further use. Where ranks make different calls, or the same with vectors of different lengths, all
    raise `UsageError` and nothing is changed. To reduce what `bucket` gave out is another call than to reduce any other
    tensor where the one is summed in place and the other is copied (shared memory).

    Attributes:
        rank: This process, from 0.
        size: Processes in the group.
        wait_s: Seconds that this rank has waited for others since it was opened.
    """

    rank: int
    size: int
    wait_s: float

    def bucket(self, numel: int) -> Tensor:
        """The zeroed float32 vector `[numel]` that is reduced without a copy.

        Raises:
            UsageError: On a second call, or where there is no room for so many numbers.
        """
        ...

    def reduce(self, bucket: Tensor) -> None:
        """Sum a flat float32 vector `[n]`, on any device, in place over the group; all ranks end bit-identical.

        Raises:
            UsageError: If the tensor is not flat, contiguous and float32.
        """
        ...

    def gather(self, values: Tensor) -> Tensor:
        """The float64 CPU vectors `[n]` of all ranks as `[size, n]` in rank order, the same on every rank.

        Raises:
            UsageError: If the tensor is not flat and float64 on the CPU.
        """
        ...

    def barrier(self) -> None:
        """Return when all ranks have called this."""
        ...

    def close(self) -> None:
        """Give back what the operating system holds. Buckets stay readable."""
        ...


def check_bucket(bucket: Tensor) -> None:
    """Raise `UsageError` unless the tensor can be reduced: flat, contiguous, float32."""
    if bucket.dtype != torch.float32 or bucket.dim() != 1 or not bucket.is_contiguous():
        raise UsageError(f"a reduction takes a flat contiguous torch.float32 vector [n], not {_described(bucket)}")


def check_values(values: Tensor) -> None:
    """Raise `UsageError` unless the tensor can be gathered: flat, float64, on the CPU."""
    if values.dtype != torch.float64 or values.dim() != 1 or values.device.type != "cpu":
        raise UsageError(f"a gather takes a torch.float64 vector [n] on the CPU, not {_described(values)}")


def check_first_bucket(bucket: Tensor | None, numel: int) -> None:
    """Raise `UsageError` if a reduction already has its bucket."""
    if bucket is not None:
        raise UsageError(
            f"this reduction already has a bucket of {bucket.numel()} numbers; {numel} more need another one"
        )


def _described(tensor: Tensor) -> str:
    layout = "" if tensor.is_contiguous() else " with strides " + str(list(tensor.stride()))
    return f"{tensor.dtype} {list(tensor.shape)}{layout} on {tensor.device}"


class Solo:
    """The reduction of a group of one: a sum over one rank is the vector itself."""

    def __init__(self) -> None:
        self.rank = 0
        self.size = 1
        self.wait_s = 0.0
        self._bucket: Tensor | None = None

    def bucket(self, numel: int) -> Tensor:
        """A zeroed vector; see `Reduction`."""
        check_first_bucket(self._bucket, numel)
        self._bucket = torch.zeros(numel)
        return self._bucket

    def reduce(self, bucket: Tensor) -> None:
        """Check the tensor and leave it as it is; see `Reduction`."""
        check_bucket(bucket)

    def gather(self, values: Tensor) -> Tensor:
        """A copy as `[1, n]`; see `Reduction`."""
        check_values(values)
        return values.detach().clone().unsqueeze(0)

    def barrier(self) -> None:
        """Nobody to wait for."""

    def close(self) -> None:
        """Nothing to give back."""
