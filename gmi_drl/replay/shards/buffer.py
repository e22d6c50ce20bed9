"""Trajectories that are being written, in their places."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.selectors.base import check_priorities
from gmi_drl.replay.shards.shard import Shard


class Buffer:
    """Room for n trajectories of one shard. Nothing of it is selected before `commit`.

    Attributes:
        views: `[T, *shape]` of each of the n trajectories by field: the shard's memory, to be written in place. These
            are n views, not one, because the places of several trajectories need not follow each other.
        indices: Their places in the shard.
    """

    def __init__(self, shard: Shard, indices: list[int]) -> None:
        self._shard, self.indices, self._is_open = shard, indices, True
        steps, rows = shard.steps, shard.storage.rows.fields
        self.views: dict[str, list[Tensor]] = {
            name: [value[index * steps : (index + 1) * steps] for index in indices] for name, value in rows.items()
        }

    def write(self, step: int, fields: Mapping[str, Tensor]) -> None:
        """Write one step of all trajectories: `[n, *shape]` of some fields.

        Raises:
            UsageError: if the buffer is closed, the step is outside, or a field is unknown or has other sizes.
        """
        self._check_open()
        if not 0 <= step < self._shard.steps:
            raise UsageError(f"step {step}: trajectories have the steps 0 to {self._shard.steps - 1}")
        for name, value in fields.items():
            views = self.views.get(name)
            if views is None or value.shape != (len(views), *views[0].shape[1:]):
                known = ", ".join(self._shard.storage.signature.by_name)
                wanted = "unknown" if views is None else f"not [{len(views)}, *{list(views[0].shape[1:])}]"
                raise UsageError(f"{name} {list(value.shape)} is {wanted} (fields: {known})")
            for view, row in zip(views, value, strict=True):
                view[step] = row

    def commit(self, lengths: int | Tensor, priorities: float | Tensor = 1.0, version: int = 0) -> None:
        """Make the trajectories selectable, from the next call of all ranks on.

        Args:
            lengths: Steps that were written, of all or `[n]`; 1 to T.
            priorities: Of all or `[n]`; 0 or more. What is no tensor counts as float64.
            version: Of the policy that acted.

        Raises:
            UsageError: if a number is wrong, or the buffer is closed; then it is as it was.
        """
        self._check_open()
        count = len(self.indices)
        steps = torch.as_tensor(lengths, device="cpu")
        weights = torch.as_tensor(priorities, dtype=torch.float64, device="cpu").detach()
        if not (_fits(steps, count) and _fits(weights, count)):
            raise UsageError(f"a buffer of {count} trajectories has as many lengths and priorities, or one of all")
        if steps.dtype.is_floating_point or steps.dtype.is_complex or steps.dtype == torch.bool:
            raise UsageError(f"lengths are integers, not {steps.dtype}")
        steps, weights = steps.to(torch.int64).expand(count), weights.expand(count)
        if bad := [length for length in steps.tolist() if not 1 <= length <= self._shard.steps]:
            raise UsageError(f"a trajectory has 1 to {self._shard.steps} steps, not {bad[0]}")
        check_priorities(weights.numpy(), self._shard.table.contents.most_priority)
        self._is_open = False
        self._shard.commit(self.indices, steps.contiguous(), weights.contiguous(), version)
        self.views = {}

    def abandon(self) -> None:
        """Give the places back. A buffer that was committed stays as it is."""
        if self._is_open:
            self._is_open = False
            self._shard.end_lease(self.indices)
            self.views = {}

    def _check_open(self) -> None:
        if not self._is_open:
            raise UsageError("this buffer was committed or abandoned: allocate another one")


def _fits(value: Tensor, count: int) -> bool:
    return value.dim() == 0 or value.shape in ((1,), (count,))
