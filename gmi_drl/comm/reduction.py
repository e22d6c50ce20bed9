"""What every gradient reduction does."""

from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.comm.group import Group, described
from gmi_drl.errors import UsageError


class Reduction(Protocol):
    """Sums vectors over the ranks of a group (paper section 4.1), each on one device.

    What `Group` says of waits and of different calls holds here, too. A group has one reduction. All ranks do the same:
    whether a rank has its bucket, and whether it reduces that bucket, may count as different calls.
    """

    @property
    def group(self) -> Group:
        """The group whose ranks it sums over."""

    def bucket(self, numel: int) -> Tensor:
        """A zeroed float32 vector `[numel]` on the device, which is reduced with the fewest copies.

        Raises:
            UsageError: On a second call, or if there is no room for that many numbers.
        """
        ...

    def reduce(self, bucket: Tensor) -> None:
        """Sum a flat float32 vector `[n]`, on any device, in place over the group; all ranks end bit-identical.

        Raises:
            UsageError: If the tensor is not flat, contiguous and float32.
        """
        ...


def check_bucket(bucket: Tensor) -> None:
    """Raise `UsageError` unless the tensor can be reduced: flat, contiguous, float32."""
    wanted = "a reduction takes a flat contiguous torch.float32 vector [n]"
    if not isinstance(bucket, Tensor):
        raise UsageError(f"{wanted}, not {bucket!r:.80}")
    if bucket.dtype != torch.float32 or bucket.dim() != 1 or not bucket.is_contiguous():
        raise UsageError(f"{wanted}, not {described(bucket)}")


def check_first_bucket(bucket: Tensor | None, numel: int) -> None:
    """Raise `UsageError` if a reduction already has its bucket."""
    if bucket is not None:
        raise UsageError(
            f"this reduction already has a bucket of {bucket.numel()} numbers; {numel} more need another one"
        )


class PlainBucket:
    """The bucket of reductions that treat it like any other vector: ordinary memory of a device."""

    def __init__(self, device: torch.device | str) -> None:
        self._device = device
        self._bucket: Tensor | None = None

    def bucket(self, numel: int) -> Tensor:
        """A zeroed vector; see `Reduction`."""
        check_first_bucket(self._bucket, numel)
        self._bucket = torch.zeros(numel, device=self._device)
        return self._bucket
